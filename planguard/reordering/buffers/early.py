"""Ranks that are stuck before any member of a fused buffer plays a part, so in every order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.execution.decide import Decider
from planguard.execution.findings.members import NONE
from planguard.execution.running.expand import expand
from planguard.plan.vocabulary import STRAYING
from planguard.reordering.orders.stuck_early import entry_of, stuck_before
from planguard.semantics.model import lenient

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planguard.options import CheckOptions
    from planguard.reordering.buffers.merge import Merged
    from planguard.reordering.buffers.play import Played
    from planguard.reordering.buffers.rank import FusedRank
    from planguard.semantics.model import ExecutionModel


def stuck_early(
    usual: Merged,
    ranks: Iterable[FusedRank],
    played: Sequence[Played],
    model: ExecutionModel,
    options: CheckOptions,
) -> set[int]:
    """Return ranks that are stuck in every order of readiness; none if that is open.

    What is open begins with the first call that a block of members lets a rank issue; the rest is
    the argument of `stuck_early`. Other open constructs, receives from anybody, and operations
    that change what later calls mean leave it open.

    Args:
        usual: The plan of the usual order.
        ranks: Its ranks with their members; one stands for all that run its program.
        played: What they issue in the usual order.
        model: The execution model.
        options: Options of the check.
    """
    plan = usual.ordered.plan
    columns = expand(plan)
    if columns.has_markers or columns.has_any_source or columns.has_any_tag:
        return set()
    if columns.has_wait_choice:
        return set()
    if any(leaf.fields["op"] in STRAYING for rank in ranks for leaf in rank.leaves):
        return set()
    run = Decider(plan, columns, model, options).run(
        lenient(model, options.eager_bytes), origins=True
    )
    first = []
    for rank, program in enumerate(played):
        at = next((n for n, cause in enumerate(program.causes) if cause), None)
        first.append(NONE if at is None else entry_of(run, rank, at))
    return stuck_before(run, first)
