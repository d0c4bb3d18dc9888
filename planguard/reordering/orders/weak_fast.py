"""Large plans whose blocks are plain bags, decided on their columns: nothing is flattened.

Taking a plan apart costs microseconds an action, these checks nanoseconds. They answer SAFE or
nothing: whatever else holds is left to the routes that can show an order.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from planguard import kernels
from planguard.execution.decide import Decider
from planguard.plan.actions import ASYNC, KIND_MASK, Kind
from planguard.plan.fixed import FixedPlan
from planguard.reordering.explorer import Explored
from planguard.semantics.model import ExecutionModel, Family
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan

LARGE = 1_000
"""Actions from which a plan takes this route; smaller ones take the general one, which explores."""
FINE = 0
FREE, REFUSED = 1, 2

_FRESH = frozenset({
    Kind.PROBE, Kind.TEST, Kind.DROP, Kind.INIT, Kind.NEW_GROUP, Kind.DESTROY, Kind.EXIT,
    Kind.EVENT_RECORD, Kind.EVENT_WAIT, Kind.HOST_SYNC,
})  # fmt: skip
"""Kinds whose effect depends on their place in a block."""
_SILENT = frozenset({Kind.NOP, Kind.COPY, Kind.COMPUTE})


def decide_bags(
    plan: Plan,
    columns: Any,
    model: ExecutionModel,
    options: CheckOptions,
    *,
    least: int = LARGE,
    implementation: Any = None,
) -> Explored | None:
    """Return SAFE where the columns alone show it, else None.

    Args:
        plan: A plan whose only open construct is ``unordered``.
        columns: Its columns, with markers.
        model: The execution model.
        options: Options of the check.
        least: Smallest number of actions for which it is tried.
        implementation: Kernels to use; the default ones if None.
    """
    kinds = plan.kinds
    if plan.actions < least or (model.exit_withdraws and Kind.EXIT in kinds):
        return None
    if model.drops_kill and Kind.DROP in kinds:
        return None
    chosen = implementation or kernels.current()
    rounds = chosen.open_rounds(columns, _queues(columns, model), _in_block(model))
    if rounds.status != FINE:
        return None
    decider = Decider(plan, columns, model, options, implementation=implementation)
    decision = decider.decide(origins=rounds.mixed)
    if decision.outcome is not Outcome.SAFE:
        return None
    route = "any-order"
    if rounds.mixed:
        route = "weak-order"
        if chosen.weak_orders(columns, decision.execution.lanes).status != FINE:
            return None
    offsets = columns.rank_off
    same = tuple(range(offsets[rank + 1] - offsets[rank]) for rank in range(plan.world_size))
    return Explored(
        Outcome.SAFE, decision, decider, FixedPlan(plan, same), schedules=1, route=(route,)
    )


def _queues(columns: Any, model: ExecutionModel) -> array[int]:
    """Return the queue of every channel: without tags, channels of one pair are one queue."""
    tags = columns.chan_tag
    # Channels differ in their group, their ends or their tag.
    if model.use_tags or len(set(tags)) < 2:
        return array("I", range(len(tags)))
    found: dict[tuple[int, ...], int] = {}
    rows = zip(columns.chan_ginst, columns.chan_src, columns.chan_dst, strict=True)
    return array("I", (found.setdefault(row, len(found)) for row in rows))


def _in_block(model: ExecutionModel) -> bytes:
    """Return what every op byte is inside a block: it may wait, is free, or is refused."""
    queued = model.family is not Family.HOST or model.pre_barrier

    def what(op: int) -> int:
        kind = op & KIND_MASK
        if kind in _FRESH or (kind == Kind.BARRIER and model.barrier_last):
            return REFUSED
        free = bool(op & ASYNC) and kind not in {Kind.BARRIER, Kind.BROADCAST} and not queued
        return FREE if free or kind in _SILENT else 0

    return bytes(what(op) for op in range(256))
