"""Every program that the ranks of a plan with fused buffers can issue, if they are few."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from planguard.reordering.buffers import UndecidedError
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from planguard.reordering.fusion_play import Played
    from planguard.reordering.fusion_rank import Extension, FusedRank
    from planguard.verdict import Verdict

ORDERS = 5_040
"""Most orders of readiness of one rank that are played."""
DISAGREES = frozenset(
    {"PG102", "PG201", "PG202", "PG203", "PG204", "PG205", "PG206", "PG212", "PG213"}
)
"""Codes of matches whose members disagree."""
COMBINATIONS = 2_000
"""Most combinations of programs that are decided."""


def programs(rank: FusedRank, play: Callable[[Extension], Played]) -> list[Played]:
    """Return the different programs that a rank can issue, the usual one first.

    Raises:
        UndecidedError: There are too many orders.
    """
    found: list[Played] = []
    keys: set[str] = set()
    for number, order in enumerate(rank.extensions()):
        if number >= ORDERS:
            where = f"rank {rank.order.rank}"
            raise UndecidedError(f"more than {ORDERS:,} orders of readiness on {where}")
        played = play(order)
        key = repr(played.actions)
        if key not in keys:
            keys.add(key)
            found.append(played)
    return found


def combinations(choices: Sequence[Sequence[Played]]) -> Iterator[tuple[Played, ...]]:
    """Yield one program per rank in all ways.

    Raises:
        UndecidedError: There are too many.
    """
    total = 1
    for programs_of_rank in choices:
        total *= len(programs_of_rank)
    if total > COMBINATIONS:
        raise UndecidedError(f"more than {COMBINATIONS:,} combinations of flushes")
    yield from itertools.product(*choices)


def together(verdicts: Iterable[Verdict]) -> Outcome:
    """Return the outcome over all executions from the verdict on each."""
    found = list(verdicts)
    seen = {verdict.outcome for verdict in found}
    if seen == {Outcome.DEADLOCK}:
        return Outcome.DEADLOCK
    if any(mixes(verdict) for verdict in found):
        return Outcome.MISMATCH
    if Outcome.UNKNOWN in seen:
        return Outcome.UNKNOWN
    return next(iter(seen)) if len(seen) == 1 else Outcome.POTENTIAL_DEADLOCK


def mixes(verdict: Verdict) -> bool:
    """Whether an execution forms a match whose members disagree, stuck or not."""
    if verdict.outcome is Outcome.MISMATCH:
        return True
    errors = (finding for finding in verdict.findings if finding.severity == "error")
    return any(finding.code in DISAGREES for finding in errors)
