"""GraphModules and ExportedPrograms to plain graphs; only this module touches torch objects.

Nothing of a graph is executed: nodes, metadata and schemas are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from planguard.errors import PlanError
from planguard.sources import is_library_elsewhere

from .model import (
    Arg,
    FxGraph,
    FxGroup,
    FxNode,
    FxProgram,
    Opaque,
    RankProgram,
    Ref,
    Sym,
    TensorMeta,
    Val,
)
from .operations import PYTHON

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>.+)')
_UNBACKED = re.compile(r"\b(u|zuf)\d+\b")


def convert_program(program: FxProgram) -> RankProgram:
    """Convert the graphs of one rank; forward graphs first, then backward graphs.

    Raises:
        PlanError: If a graph is of an unknown kind or malformed.
    """
    graphs = [*_graphs(program.forward, "forward", program.inputs)]
    if program.backward is not None:
        graphs += _graphs(program.backward, "backward", program.inputs)
    groups = {str(name): _group(str(name), value) for name, value in program.groups.items()}
    return RankProgram(tuple(graphs), groups)


def is_graph(value: Any) -> bool:
    """Tell whether a value looks like a graph ``convert_graph`` takes; torch is not needed."""
    return isinstance(value, FxGraph) or hasattr(getattr(value, "graph", None), "nodes")


def convert_graph(
    module: Any, *, phase: str = "forward", inputs: Sequence[str | None] = (), sort: bool = False
) -> FxGraph:
    """Convert a GraphModule, an ExportedProgram or a bare ``fx.Graph``.

    Args:
        module: The graph.
        phase: ``forward`` or ``backward``.
        inputs: Names of the traced function's inputs by position, used where AOTAutograd's
            descriptors only give an index.
        sort: Put nodes behind what they use, as torch's ``stable_topological_sort`` does: some
            passes leave that to the end.

    Raises:
        PlanError: If it is none of these, or a node uses a value that no earlier node defines.
    """
    if isinstance(module, FxGraph):
        return module
    graph: Any = module if _is_fx_graph(module) else getattr(module, "graph", None)
    if not _is_fx_graph(graph):
        raise PlanError(
            f"cannot read a graph from {type(module).__name__}",
            value=module,
            hint="pass a torch.fx.GraphModule, an ExportedProgram or a planguard FxGraph",
        )
    owner = getattr(module, "graph_module", None) or graph.owning_module or module
    return _Converter(graph, owner, phase, inputs, _signature(module)).run(sort=sort)


def _is_fx_graph(value: Any) -> bool:
    return hasattr(value, "nodes") and hasattr(value, "lint")


def _graphs(value: Any, phase: str, inputs: Sequence[str | None]) -> list[FxGraph]:
    several = value if isinstance(value, Sequence) else [value]
    return [convert_graph(item, phase=phase, inputs=inputs) for item in several]


def _group(name: str, value: Any) -> FxGroup:
    if isinstance(value, FxGroup):
        return value
    try:
        ranks = tuple(int(rank) for rank in value)
    except (TypeError, ValueError) as error:
        raise PlanError(
            f"group {name!r} needs its ranks", value=value, hint='groups={"0": [0, 1, 2, 3]}'
        ) from error
    return FxGroup(ranks, name)


def _signature(module: Any) -> dict[str, str]:
    """Map placeholders of an ExportedProgram to qualified names."""
    signature = getattr(module, "graph_signature", None)
    found: dict[str, str] = {}
    for table in ("inputs_to_parameters", "inputs_to_buffers"):
        found.update(getattr(signature, table, None) or {})
    return found


class _Converter:
    """Walks one fx.Graph. Kept as a class because names, phase and owner go everywhere."""

    def __init__(
        self,
        graph: Any,
        owner: Any,
        phase: str,
        inputs: Sequence[str | None],
        signature: Mapping[str, str],
    ) -> None:
        self.graph = graph
        self.owner = owner
        self.phase = phase
        self.inputs = inputs
        self.signature = signature
        self.constants: dict[str, str] = {}
        self.subgraphs: dict[str, FxGraph] = {}
        self.positional = 0  # placeholders without a descriptor so far

    def run(self, *, sort: bool) -> FxGraph:
        nodes = [self._node(node) for node in self.graph.nodes]
        if sort:
            nodes = _sorted(nodes)
        known: set[str] = set()
        for node in nodes:
            for used in (*node.inputs(), *node.mutates):
                if used not in known:
                    raise PlanError(
                        f"node {node.name!r} uses {used!r}, which no node before it defines",
                        path=f"{self.phase} graph, node {node.name}",
                        hint="run graph.lint(); torch's stable_topological_sort repairs the order",
                    )
            if node.name in known:
                raise PlanError(f"node {node.name!r} is defined twice", path=self.phase)
            known.add(node.name)
        return FxGraph(tuple(nodes), self.phase, self.subgraphs)

    def _node(self, node: Any) -> FxNode:
        meta = node.meta
        out = FxNode(
            name=node.name,
            op=node.op,
            target=_target(node.target),
            args=tuple(self._arg(arg) for arg in node.args),
            kwargs={key: self._arg(arg) for key, arg in node.kwargs.items()},
            val=_val(meta.get("val", meta.get("example_value"))),
            source=source_of(meta.get("stack_trace") or getattr(node, "stack_trace", None)),
        )
        if node.op == "placeholder":
            return replace(out, fqn=self._placeholder_name(node))
        if node.op == "get_attr":
            return self._attribute(node, out)
        if node.op == "output":
            return replace(out, fqns=tuple(self._grad_name(d) for d in meta.get("desc") or ()))
        if node.op == "call_module":
            kind = type(_lookup(self.owner, str(node.target)))
            name = f"{kind.__module__}.{kind.__qualname__}"
            return replace(out, target=name if name.startswith("torch.nn.") else PYTHON + name)
        if node.op == "call_function":
            view, mutates = _effects(node)
            return replace(out, view=view, mutates=mutates)
        return out

    def _placeholder_name(self, node: Any) -> str | None:
        if node.name in self.signature:
            return self.signature[node.name]
        named = _described(node.meta.get("desc"), self.inputs)
        if named is None and not node.meta.get("desc"):
            guard = node.meta.get("grapharg")
            source = getattr(guard, "source", None)
            named = _attribute_path(str(getattr(source, "name", "") or ""))
            if named is None and self.positional < len(self.inputs):
                named = self.inputs[self.positional]
            self.positional += 1
        return named

    def _grad_name(self, desc: Any) -> str | None:
        while hasattr(desc, "base"):
            desc = desc.base
        of = getattr(desc, "grad_of", None)
        return _described(of, self.inputs) if of is not None else None

    def _attribute(self, node: Any, out: FxNode) -> FxNode:
        value = _lookup(self.owner, str(node.target))
        if hasattr(value, "graph") and hasattr(value, "named_parameters"):
            self.subgraphs[str(node.target)] = convert_graph(value, phase=self.phase)
            return out
        constant = _constant(value)
        if constant is not None:
            self.constants[node.name] = constant
            return out
        if out.val is None and hasattr(value, "shape"):
            out = replace(out, val=_val(value))
        return replace(out, fqn=str(node.target)) if _is_parameter(value) else out

    def _arg(self, arg: Any) -> Arg:
        if hasattr(arg, "meta") and hasattr(arg, "graph") and hasattr(arg, "users"):
            return self.constants.get(arg.name, Ref(arg.name))
        if isinstance(arg, (list, tuple)):
            return tuple(self._arg(item) for item in arg)
        if isinstance(arg, dict):
            return tuple(self._arg(item) for item in arg.values())
        if isinstance(arg, slice):
            return tuple(self._arg(item) for item in (arg.start, arg.stop, arg.step))
        if arg is None or isinstance(arg, (bool, int, float, str)):
            return arg
        if hasattr(arg, "group_name") and hasattr(arg, "rank"):
            return str(arg.group_name)
        return _symbol(arg) or Opaque(_target(arg)[:200])


def _sorted(nodes: list[FxNode]) -> list[FxNode]:
    """Sort topologically, keeping the order where it is free, and outputs at the end."""
    pending = nodes[::-1]
    ready: dict[str, FxNode] = {}
    waiting: dict[str, list[FxNode]] = {}
    outputs: list[FxNode] = []
    while pending:
        node = pending.pop()
        if node.op == "output":
            outputs.append(node)
            continue
        missing = [used for used in dict.fromkeys(node.inputs()) if used not in ready]
        if missing:
            waiting.setdefault(missing[-1], []).append(node)
            continue
        ready[node.name] = node
        pending.extend(reversed(waiting.pop(node.name, [])))
    return [*ready.values(), *(node for rest in waiting.values() for node in rest), *outputs]


def _target(target: Any) -> str:
    if isinstance(target, str):
        return target
    text = str(target)
    kinds = {kind.__name__ for kind in type(target).__mro__}
    if kinds & {"OpOverload", "OpOverloadPacket", "OperatorBase"}:
        return text
    if callable(target) and hasattr(target, "__name__"):
        module = getattr(target, "__module__", "") or ""
        name = f"{module}.{target.__name__}" if module else str(target.__name__)
        known = module.split(".")[0] in ("torch", "_operator", "operator", "math", "builtins", "")
        return name if known else f"{PYTHON}{name}"
    return text


def _effects(node: Any) -> tuple[bool, tuple[str, ...]]:
    """Read from the operator's schema whether it returns a view and which arguments it writes."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return _target(node.target) == "_operator.getitem", ()
    mutates: list[str] = []
    view = False
    for place, parameter in enumerate(schema.arguments):
        if parameter.alias_info is None:
            continue
        value = (
            node.args[place] if place < len(node.args) else node.kwargs.get(parameter.name, None)
        )
        if parameter.alias_info.is_write:
            mutates += _names(value)
        elif place == 0:
            view = True
    return view or bool(mutates), tuple(mutates)


def _names(value: Any) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [name for item in value for name in _names(item)]
    return [value.name] if hasattr(value, "meta") and hasattr(value, "users") else []


def _symbol(value: Any) -> Sym | None:
    node = getattr(value, "node", None)
    if node is None or not hasattr(node, "expr"):
        return None
    expression = str(node.expr)
    if _UNBACKED.search(expression):  # data-dependent: whatever hint torch offers is a guess
        return Sym(expression)
    hint = getattr(node, "hint", None)
    try:
        return Sym(expression, None if hint is None else int(hint))
    except (TypeError, ValueError):
        return Sym(expression)


def _val(value: Any) -> Val:
    if isinstance(value, (list, tuple)):
        return tuple(_val(item) for item in value)
    if type(value) is int:
        return value
    if not hasattr(value, "shape") and _symbol(value) is not None:
        return _symbol(value)
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return None
    shape = []
    for dim in value.shape:
        symbol = None if isinstance(dim, int) and type(dim) is int else _symbol(dim)
        shape.append(symbol if symbol is not None else int(dim))
    return TensorMeta(tuple(shape), str(value.dtype).removeprefix("torch."))


def source_of(trace: str | None) -> tuple[str, int | None, str | None] | None:
    """Return the innermost frame that is not torch's own; else the innermost frame."""
    frames = [match.groupdict() for match in _FRAME.finditer(trace or "")]
    if not frames:
        return None
    own = [frame for frame in frames if not is_library_elsewhere(frame["file"])]
    frame = (own or frames)[-1]
    return frame["file"], int(frame["line"]), frame["name"].strip()


def _described(desc: Any, inputs: Sequence[str | None]) -> str | None:
    """Name the input that one of AOTAutograd's descriptors stands for."""
    while hasattr(desc, "base"):
        desc = desc.base
    target = getattr(desc, "target", None)
    if isinstance(target, str):
        return target
    index = getattr(desc, "idx", None)
    if type(desc).__name__ == "PlainAOTInput" and isinstance(index, int) and index < len(inputs):
        return inputs[index]
    return None


def _attribute_path(source: str) -> str | None:
    """Turn a guard source into a qualified name.

    ``L['self']._modules['up']._parameters['weight']`` becomes ``up.weight``.
    """
    if "_parameters" not in source and "_buffers" not in source:
        return None
    names = re.findall(r"_(?:modules|parameters|buffers)\['([^']+)'\]", source)
    return ".".join(names) or None


def _lookup(owner: Any, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part, None)
    return owner


def _is_parameter(value: Any) -> bool:
    return hasattr(value, "shape") and bool(getattr(value, "requires_grad", False))


def _constant(value: Any) -> str | None:
    """Name a process group or a reduce operation that is an attribute of the graph module."""
    if hasattr(value, "group_name") and hasattr(value, "rank"):
        return str(value.group_name)
    if type(value).__name__ not in ("ScriptObject", "RecursiveScriptClass"):
        return None
    import torch.distributed as dist

    kind = str(getattr(value, "_type", lambda: "")())
    if kind.endswith("ProcessGroup"):
        return str(dist.ProcessGroup.unbox(value).group_name)
    if kind.endswith("ReduceOp"):
        from torch._C._distributed_c10d import ReduceOp

        unboxed = getattr(ReduceOp, "unbox", None)
        return _reduce_name(unboxed(value)) if unboxed is not None else "unknown"
    return None


def _reduce_name(op: Any) -> str:
    return str(op).rsplit(".", maxsplit=1)[-1].rstrip(">").split(":")[0].lower()


def input_names(module: Any) -> tuple[str | None, ...]:
    """Return the qualified names of a Dynamo graph's inputs by position; None for activations."""
    names: list[str | None] = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            guard = node.meta.get("grapharg")
            source = getattr(guard, "source", None)
            names.append(_attribute_path(str(getattr(source, "name", "") or "")))
    return tuple(names)
