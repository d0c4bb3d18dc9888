"""Every program that the ranks of a plan with fused buffers can issue, if they are few."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from planguard.execution.findings.reason import UndecidedError, out_of_time, too_many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planguard.options import Deadline
    from planguard.reordering.buffers.play import Played
    from planguard.reordering.buffers.rank import Extension, FusedRank

ORDERS = 5_040
"""Most orders of readiness of one rank that are played."""
COMBINATIONS = 2_000
"""Most combinations of programs that are decided."""


def programs(
    rank: FusedRank, play: Callable[[Extension], Played], deadline: Deadline
) -> list[Played]:
    """Return the different programs that a rank can issue, the usual one first.

    Raises:
        UndecidedError: There are too many orders, or no time for them.
    """
    found: list[Played] = []
    keys: set[str] = set()
    where = f"orders of readiness on rank {rank.order.rank}"
    # Counted before any is played: that takes a tenth of the time.
    few = itertools.islice(rank.extensions(), ORDERS + 1)
    if not deadline.is_bounded and sum(1 for _ in few) > ORDERS:
        raise UndecidedError(too_many(f"more than {ORDERS:,} {where}"))
    for number, order in enumerate(rank.extensions()):
        if deadline.expired():
            raise UndecidedError(out_of_time(f" after {number:,} {where}"))
        played = play(order)
        key = repr(played.actions)
        if key not in keys:
            keys.add(key)
            found.append(played)
    return found


def combinations(
    choices: Sequence[Sequence[Played]], deadline: Deadline
) -> Iterator[tuple[Played, ...]]:
    """Yield one program per rank in all ways.

    Raises:
        UndecidedError: There are too many, or no time for them.
    """
    total = 1
    for programs_of_rank in choices:
        total *= len(programs_of_rank)
    if total > COMBINATIONS and not deadline.is_bounded:
        raise UndecidedError(too_many(f"more than {COMBINATIONS:,} combinations of flushes"))
    for number, chosen in enumerate(itertools.product(*choices)):
        if deadline.expired():
            raise UndecidedError(out_of_time(f" after {number:,} combinations of flushes"))
        yield chosen
