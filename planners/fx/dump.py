"""The dump ``planguard.fx/1``: the graphs of a job as JSON, which is read without torch.

One program is written once and shared by the ranks whose graphs differ only in the names of their
groups; ``docs/planners/fx.md`` describes every field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from planguard.errors import PlanError
from planguard.files import write_packed

from ..common.reading import At, load_json, records
from .model import (
    Arg,
    FxBundle,
    FxGraph,
    FxGroup,
    FxNode,
    Opaque,
    Ref,
    Sym,
    TensorMeta,
    Val,
)
from .rows import Op, Reader, Row, read_arg, read_val
from .sharing import expand_ranks, shared_programs

SCHEMA = "planguard.fx/1"
MAX_WORLD = 1 << 20
_OPS = get_args(Op)
_DIRECTIONS = ("exact", "over", "under")


def read_bundle(source: str | Path | Mapping[str, Any], *, name: str | None = None) -> FxBundle:
    """Read a dump from a file (gzipped or not) or from the parsed object.

    Raises:
        PlanError: If it is not a well-formed dump; the message names the node or field.
    """
    if isinstance(source, Mapping):
        return _bundle(At(dict(source), file=name))
    return _bundle(load_json(Path(source)))


def write_bundle(bundle: FxBundle, path: str | Path) -> None:
    """Write a dump, one node per line; gzipped when the name ends in ``.gz``."""
    write_packed(path, [dump_text(bundle).encode()])


def dump_text(bundle: FxBundle) -> str:
    """Return the JSON text of a dump; equal bundles give equal text."""
    programs, ranks = shared_programs(bundle)
    head: dict[str, Any] = {"schema": SCHEMA, "world_size": bundle.world_size}
    if bundle.name is not None:
        head["name"] = bundle.name
    if bundle.mesh:
        head["mesh"] = {"dims": [list(dim) for dim in bundle.mesh]}
    if bundle.producer is not None:
        head["producer"] = dict(zip(("tool", "version"), bundle.producer, strict=True))
    if bundle.notes:
        keys = ("kind", "message", "direction")
        head["notes"] = [dict(zip(keys, note, strict=True)) for note in bundle.notes]
    parts = [f'"{key}": {_json(value)}' for key, value in head.items()]
    body = ",\n  ".join(f'"{key}": [{_graphs(program)}]' for key, program in programs.items())
    rows = ",\n  ".join(f'"{key}": {_json(value)}' for key, value in ranks.items())
    return (
        "{" + ",\n ".join(parts) + f',\n "programs": {{\n  {body}}},\n "ranks": {{\n  {rows}}}}}\n'
    )


def _graphs(graphs: tuple[FxGraph, ...]) -> str:
    return ",\n   ".join(_graph_text(graph) for graph in graphs)


def _graph_text(graph: FxGraph) -> str:
    nodes = ",\n    ".join(_json(_node_out(node)) for node in graph.nodes)
    text = f'{{"phase": {_json(graph.phase)}, "nodes": [\n    {nodes}]'
    if graph.subgraphs:
        inner = ", ".join(f"{_json(k)}: {_graph_text(g)}" for k, g in graph.subgraphs.items())
        text += f', "subgraphs": {{{inner}}}'
    return text + "}"


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _node_out(node: FxNode) -> dict[str, Any]:
    out: dict[str, Any] = {"name": node.name}
    if node.op != "call_function":
        out["op"] = node.op
    if node.target and node.target != node.name:
        out["target"] = node.target
    if node.args:
        out["args"] = [_arg_out(arg) for arg in node.args]
    if node.kwargs:
        out["kwargs"] = {key: _arg_out(arg) for key, arg in node.kwargs.items()}
    if node.val is not None:
        out["val"] = _val_out(node.val)
    if node.source is not None:
        out["src"] = list(node.source)
    if node.fqn is not None:
        out["fqn"] = node.fqn
    if any(node.fqns):
        out["fqns"] = list(node.fqns)
    if node.view:
        out["view"] = True
    if node.mutates:
        out["mutates"] = list(node.mutates)
    return out


def _arg_out(arg: Arg) -> Any:
    if isinstance(arg, Ref):
        return {"ref": arg.node}
    if isinstance(arg, Sym):
        return _sym_out(arg)
    if isinstance(arg, Opaque):
        return {"text": arg.text}
    if isinstance(arg, tuple):
        return [_arg_out(item) for item in arg]
    if isinstance(arg, float) and arg - arg != 0:  # inf and nan are not JSON
        return {"text": repr(arg)}
    return arg


def _sym_out(sym: Sym) -> dict[str, Any]:
    return {"sym": sym.expr} if sym.hint is None else {"sym": sym.expr, "hint": sym.hint}


def _val_out(val: Val) -> Any:
    if isinstance(val, TensorMeta):
        shape = [_sym_out(dim) if isinstance(dim, Sym) else dim for dim in val.shape]
        return {"shape": shape, "dtype": val.dtype}
    if isinstance(val, Sym):
        return _sym_out(val)
    return [_val_out(item) for item in val] if isinstance(val, tuple) else val


def _bundle(root: At) -> FxBundle:
    top = root.fields(
        "schema", "name", "world_size", "mesh", "producer", "notes", "programs", "ranks"
    )
    for key in ("schema", "world_size", "programs", "ranks"):
        if key not in top:
            root.fail(f"field {key!r} is missing", hint="docs/planners/fx.md lists the fields")
    if top["schema"].value != SCHEMA:
        top["schema"].fail(f"expected {SCHEMA!r}")
    world = top["world_size"].integer(1, MAX_WORLD)
    graphs = {
        key: tuple(_graph(g) for g in program.each()) for key, program in top["programs"].items()
    }
    programs, like = expand_ranks(top["ranks"], graphs, world, _groups)
    return FxBundle(
        world_size=world,
        programs=programs,
        like=like,
        mesh=_mesh(top["mesh"], world) if "mesh" in top else (),
        name=top["name"].text() if "name" in top else None,
        producer=_producer(top["producer"]) if "producer" in top else None,
        notes=tuple(_note(n) for n in top["notes"].each()) if "notes" in top else (),
        file=root.file,
    )


def _mesh(at: At, world: int) -> tuple[tuple[str, int], ...]:
    dims = []
    total = 1
    for dim in at.fields("dims")["dims"].each() if "dims" in at.fields("dims") else ():
        pair = list(dim.each())
        if len(pair) != 2:
            dim.fail("a mesh dimension is [name, size]")
        dims.append((pair[0].text(), pair[1].integer(1, world)))
        total *= dims[-1][1]
    if total != world or not dims:
        at.fail(f"the mesh has {total} ranks, the world {world}", code="PG411")
    return tuple(dims)


def _producer(at: At) -> tuple[str, str]:
    found = at.fields("tool", "version")
    return tuple(found[key].text() if key in found else "" for key in ("tool", "version"))  # type: ignore[return-value]


def _note(at: At) -> tuple[str, str, str]:
    found = at.fields("kind", "message", "direction")
    if set(found) != {"kind", "message", "direction"}:
        at.fail("a note has kind, message and direction")
    if found["direction"].value not in _DIRECTIONS:
        found["direction"].fail(f"expected one of {', '.join(_DIRECTIONS)}")
    return found["kind"].text(), found["message"].text(), found["direction"].text()


def _groups(at: At, world: int) -> dict[str, FxGroup]:
    return {key: _group(key, value, world) for key, value in at.items()}


def _group(key: str, at: At, world: int) -> FxGroup:
    if isinstance(at.value, list):
        return FxGroup(_ranks(at, world), key)
    found = at.fields("ranks", "name", "desc")
    if "ranks" not in found:
        at.fail("a group needs its ranks")
    name = found["name"].text() if "name" in found else key
    return FxGroup(
        _ranks(found["ranks"], world), name, found["desc"].text() if "desc" in found else ""
    )


def _ranks(at: At, world: int) -> tuple[int, ...]:
    ranks = tuple(at.integers(0, world - 1))
    if not ranks or len(set(ranks)) != len(ranks):
        at.fail("a group has at least one rank and none twice", code="PG409")
    return ranks


def _graph(at: At, depth: int = 0) -> FxGraph:
    if depth > 16:
        at.fail("subgraphs are nested too deeply")
    found = at.fields("phase", "nodes", "subgraphs")
    if "nodes" not in found:
        at.fail("a graph needs nodes")
    nodes = _nodes(found["nodes"])
    inner = found["subgraphs"].items() if "subgraphs" in found else ()
    phase = found["phase"].text() if "phase" in found else "forward"
    return FxGraph(nodes, phase, {key: _graph(value, depth + 1) for key, value in inner})


def _nodes(at: At) -> tuple[FxNode, ...]:
    rows = records(at, Row)
    if rows is not None:
        try:
            return Reader().nodes(rows)
        except PlanError:  # what is wrong with it is said with its place
            pass
    known: set[str] = set()
    return tuple(_node(item, known) for item in at.each())


def _node(at: At, known: set[str]) -> FxNode:
    keys = ("name", "op", "target", "args", "kwargs", "val", "src", "fqn", "fqns", "view")
    found = at.fields(*keys, "mutates")
    if "name" not in found:
        at.fail("a node needs a name")
    name = found["name"].text()
    if name in known:
        found["name"].fail(f"node {name!r} is defined twice")
    op = found["op"].text() if "op" in found else "call_function"
    if op not in _OPS:
        found["op"].fail(f"node {name!r}: expected one of {', '.join(_OPS)}")
    node = FxNode(
        name=name,
        op=op,
        target=found["target"].text() if "target" in found else name,
        args=tuple(read_arg(a) for a in found["args"].each()) if "args" in found else (),
        kwargs={k: read_arg(a) for k, a in found["kwargs"].items()} if "kwargs" in found else {},
        val=read_val(found["val"]) if "val" in found else None,
        source=_source(found["src"]) if "src" in found else None,
        fqn=found["fqn"].text() if "fqn" in found else None,
        fqns=_fqns(found["fqns"]) if "fqns" in found else (),
        view=found["view"].flag() if "view" in found else False,
        mutates=tuple(m.text() for m in found["mutates"].each()) if "mutates" in found else (),
    )
    for used in (*node.inputs(), *node.mutates):
        if used not in known:
            at.fail(f"node {name!r} uses {used!r}, which no node before it defines")
    known.add(name)
    return node


def _fqns(at: At) -> tuple[str | None, ...]:
    return tuple(None if item.value is None else item.text() for item in at.each())


def _source(at: At) -> tuple[str, int | None, str | None]:
    parts = list(at.each())
    if not 1 <= len(parts) <= 3:
        at.fail("a source is [file, line, function]")
    line = parts[1].integer() if len(parts) > 1 and parts[1].value is not None else None
    name = parts[2].text() if len(parts) > 2 and parts[2].value is not None else None
    return parts[0].text(), line, name
