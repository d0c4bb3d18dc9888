"""Higher-order operators undone: wrapped operators unwrapped, single-use subgraphs inlined.

Overlap scheduling wraps nodes in ``control_deps``, effects in ``with_effects``, regions in
``invoke_subgraph``. What they hold is issued right there, so the plan needs it in line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from .model import Arg, FxGraph, FxNode, Opaque, Ref, refs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TUPLE = "planguard.tuple"
"""Target of the node that stands for an inlined subgraph; its only argument is the result."""

CHOICE = "planguard.choice"
"""Target of a node whose subgraphs are branches of a data-dependent choice."""

LOOP = "planguard.loop"
"""Target of a node whose subgraphs run an unknown number of times."""


class RegionNode(FxNode, frozen=True):
    """A node that runs whole graphs: the branches of a choice, or the body of a loop."""

    regions: tuple[FxGraph, ...] = ()


_INLINED = frozenset(
    {
        "control_deps",
        "invoke_subgraph",
        "tag_activation_checkpoint",
        "wrap",
        "wrap_activation_checkpoint",
        "wrap_with_autocast",
        "wrap_with_set_grad_enabled",
    }
)


def graph_prefix(graphs: Sequence[FxGraph], place: int) -> str:
    """Return what makes the names of one of a rank's graphs unique: nothing for the first."""
    if place == 0:
        return ""
    phase = graphs[place].phase
    again = sum(graph.phase == phase for graph in graphs[:place])
    return f"{phase}{again + 1}." if again else f"{phase}."


def flatten(graph: FxGraph, prefix: str = "") -> tuple[FxNode, ...]:
    """Return the nodes of a graph with every subgraph that runs exactly once in line."""
    if prefix not in graph.flat:
        graph.flat[prefix] = tuple(_walk(graph, prefix))
    return graph.flat[prefix]


def _walk(graph: FxGraph, prefix: str) -> Iterator[FxNode]:
    modules: dict[str, str] = {}
    for node in graph.nodes:
        if node.op == "get_attr" and node.target in graph.subgraphs:
            modules[node.name] = node.target
            continue
        inner = [modules[name] for name in node.used if name in modules] if modules else None
        if inner:
            yield from _higher_order(graph, node, inner, modules, prefix)
        elif node.target.endswith("with_effects") and _short(node) == "with_effects":
            yield from _without_token(node, prefix)
        else:
            yield _renamed(node, prefix)


def _short(node: FxNode) -> str:
    return node.target.rsplit(".", maxsplit=1)[-1]


def _higher_order(
    graph: FxGraph, node: FxNode, inner: list[str], modules: dict[str, str], prefix: str
) -> Iterator[FxNode]:
    short = _short(node)
    if short in _INLINED and len(inner) == 1:
        yield from _inline(graph, node, inner[0], modules, prefix)
        return
    kept = {name: getattr(node, name) for name in FxNode.__struct_fields__}
    kept["target"] = CHOICE if short == "cond" else LOOP
    kept["args"] = (Opaque(short), *(_drop(arg, modules) for arg in node.args))
    yield _renamed(RegionNode(**kept, regions=tuple(graph.subgraphs[n] for n in inner)), prefix)


def _inline(
    graph: FxGraph, node: FxNode, name: str, modules: dict[str, str], prefix: str
) -> Iterator[FxNode]:
    values = list(_operands(node, modules))
    bound: dict[str, Arg] = {}
    steps: list[FxNode] = []
    outputs: tuple[Arg, ...] = ()
    for step in _walk(graph.subgraphs[name], f"{prefix}{node.name}."):
        if step.op == "placeholder" and values:
            bound[step.name] = _rename(values.pop(0), prefix)
        elif step.op == "output":
            outputs = step.args
        else:
            steps.append(step)
    outer = prefix + node.name
    result = outputs[0] if outputs else None
    kept = result.node if isinstance(result, Ref) else None
    if kept in {step.name for step in steps}:
        bound[str(kept)] = Ref(outer)  # what the region returns goes by the region's own name
    for step in steps:
        yield replace(
            step,
            name=outer if step.name == kept else step.name,
            args=tuple(_bind(arg, bound) for arg in step.args),
            kwargs={key: _bind(arg, bound) for key, arg in step.kwargs.items()},
            mutates=tuple(_target_of(bound, used) for used in step.mutates),
            source=step.source or node.source,
        )
    if str(kept) not in bound or bound[str(kept)] != Ref(outer):
        value = tuple(_bind(arg, bound) for arg in outputs)
        yield replace(node, name=outer, target=TUPLE, args=value, kwargs={}, view=True, mutates=())


def _operands(node: FxNode, modules: dict[str, str]) -> Iterator[Arg]:
    """Yield what is passed to the subgraph: everything behind it in the argument list."""
    seen = False
    for arg in node.args:
        if isinstance(arg, Ref) and arg.node in modules:
            seen = True
        elif seen and not isinstance(arg, (str, Opaque)):
            yield from arg if isinstance(arg, tuple) else (arg,)


def _drop(arg: Arg, modules: dict[str, str]) -> Arg:
    if isinstance(arg, tuple):
        return tuple(_drop(item, modules) for item in arg)
    return None if isinstance(arg, Ref) and arg.node in modules else arg


def _without_token(node: FxNode, prefix: str) -> Iterator[FxNode]:
    """``with_effects(token, op, *args)`` runs ``op(*args)``; element 1 of it is the result."""
    operator = node.args[1] if len(node.args) > 1 else None
    if not isinstance(operator, Opaque):
        yield _renamed(node, prefix)
        return
    val = node.val[1] if isinstance(node.val, tuple) and len(node.val) > 1 else None
    inner = replace(node, name=f"{node.name}.op", target=operator.text, args=node.args[2:], val=val)
    yield _renamed(inner, prefix)
    pair = (None, Ref(inner.name))
    yield _renamed(replace(node, target=TUPLE, args=(pair,), kwargs={}, view=True), prefix)


def _renamed(node: FxNode, prefix: str) -> FxNode:
    if not prefix:
        return node
    used, args, kwargs, mutates = node.used, node.args, node.kwargs, node.mutates
    if used:
        args = tuple([_rename(arg, prefix) for arg in args])
        kwargs = {key: _rename(arg, prefix) for key, arg in kwargs.items()} if kwargs else kwargs
    if mutates:
        mutates = tuple([prefix + name for name in mutates])
    if node.__class__ is not FxNode:
        return replace(node, name=prefix + node.name, args=args, kwargs=kwargs, mutates=mutates)
    made = FxNode(
        prefix + node.name, node.op, node.target, args, kwargs, node.val, node.source, node.fqn,
        node.fqns, node.view, mutates,
    )  # fmt: skip
    made.__dict__["used"] = tuple([prefix + name for name in used])
    return made


def _rename(arg: Arg, prefix: str) -> Arg:
    if arg.__class__ is Ref:
        return Ref(prefix + arg.node) if prefix else arg
    if arg.__class__ is tuple:
        return tuple([_rename(item, prefix) for item in arg])
    return arg


def _bind(arg: Arg, bound: dict[str, Arg]) -> Arg:
    if isinstance(arg, tuple):
        return tuple(_bind(item, bound) for item in arg)
    return bound.get(arg.node, arg) if isinstance(arg, Ref) else arg


def _target_of(bound: dict[str, Arg], name: str) -> str:
    return next(iter(refs(bound[name])), name) if name in bound else name
