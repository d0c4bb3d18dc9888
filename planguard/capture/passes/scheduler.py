"""Inductor's scheduler nodes as communications in order, for passes that run below the graph.

A scheduler pass only permutes nodes. What it must keep: the same communications, producers in front
of consumers (so waits behind their collective and in front of the first use), and no move across a
send, a receive, a barrier or a communication nobody can look into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.capture.passes.sides import Side, Talk
from planguard.capture.planner import fx_planner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def scheduler_side(nodes: Sequence[Any]) -> Side:
    """Reduce the nodes of a scheduler to their communications, in order.

    Args:
        nodes: ``BaseSchedulerNode`` objects; fused and grouped ones are opened.
    """
    planner = fx_planner()
    leaves = list(_leaves(nodes))
    talks = [talk for leaf in leaves if (talk := _talk(leaf, planner)) is not None]
    return Side(talks, _flow(leaves, {talk.node for talk in talks}, planner))


def kernels_of(nodes: Sequence[Any]) -> dict[str, Any]:
    """Return the kernel of every node of a scheduler, by name; fused ones are opened."""
    return {str(leaf.get_name()): getattr(leaf, "node", None) for leaf in _leaves(nodes)}


def _leaves(nodes: Sequence[Any]) -> Iterator[Any]:
    for node in nodes:
        inner = getattr(node, "snodes", None)
        if inner:
            yield from _leaves(inner)
        else:
            yield node


def _talk(leaf: Any, planner: Any) -> Talk | None:
    """Read one leaf; None for computation and for waits."""
    kernel = getattr(leaf, "node", None)
    target = str(getattr(kernel, "op_overload", None) or "")
    if not target:
        return None
    base = planner.operations.base_name(target)
    if base in planner.operations.WAITS:
        return None
    operation = planner.operations.OPERATIONS.get(base)
    constants = tuple(getattr(kernel, "constant_args", ()) or ())
    names = [value for value in constants if isinstance(value, str)]
    name, source = str(leaf.get_name()), _source(kernel)
    if operation is not None and names:
        # The group name comes last in every schema; everything else must stay as it was.
        group, rest = ((), names[-1]), tuple(str(value) for value in constants[:-1])
        return Talk(name, operation.op, group, (rest,), None, (), source)
    if base.split(".")[0] in planner.operations.NAMESPACES or _takes_group(kernel):
        return Talk(
            name, "unknown", ((), target), (constants and str(constants),), None, (), source
        )
    return None


def _takes_group(kernel: Any) -> bool:
    """Tell whether the operator's schema has a process group among its parameters."""
    schema = getattr(getattr(kernel, "op_overload", None), "_schema", None)
    wanted = {"group_name", "process_group", "group", "pg"}
    return any(argument.name in wanted for argument in getattr(schema, "arguments", ()))


def _flow(leaves: Sequence[Any], talking: set[str], planner: Any) -> Any:
    """List every node in front of the communication, or the wait, whose buffers it reads."""
    hazards_module = planner.hazards
    place = {str(leaf.get_name()): index for index, leaf in enumerate(leaves)}
    maker: dict[str, str] = {}
    for leaf in leaves:
        for buffer in leaf.get_buffer_names():
            maker[str(buffer)] = str(leaf.get_name())
    matters = talking | {str(leaf.get_name()) for leaf in leaves if _waits(leaf, planner)}
    hazards = []
    for leaf in leaves:
        name = str(leaf.get_name())
        for read in leaf.read_writes.reads:
            if getattr(read, "is_fake", False):  # keeps an order; no data flows
                continue
            producer = maker.get(str(read.name))
            if producer in matters and place[producer] > place[name]:
                hazards.append(hazards_module.Hazard(name, producer))
    nodes = {str(leaf.get_name()): _Placed(_source(leaf.node)) for leaf in leaves}
    return hazards_module.Flow(tuple(hazards), (), {}, nodes)


def _waits(leaf: Any, planner: Any) -> bool:
    target = str(getattr(getattr(leaf, "node", None), "op_overload", None) or "")
    return planner.operations.base_name(target) in planner.operations.WAITS


class _Placed:
    """Carries the source of a node, as the nodes of a graph do."""

    def __init__(self, source: tuple[str, int | None, str | None] | None) -> None:
        self.source = source


def _source(kernel: Any) -> tuple[str, int | None, str | None] | None:
    convert = fx_planner().convert
    for origin in getattr(kernel, "origins", None) or ():
        found: tuple[str, int | None, str | None] | None = convert.source_of(
            origin.meta.get("stack_trace")
        )
        if found is not None:
            return found
    return None
