"""Who changed the order of calls across groups, where most of its ranks agree on another one.

Of two ranks that wait for each other in two groups either may be the one that departed. Other
members of both groups called the same two rounds, too: an order that most of them have is the
program's, as far as a recording can tell, and who has the other one changed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from planguard.audit.rounds.rounds import Rounds
    from planguard.audit.rounds.waits import Wait

MOST = 2
"""So many ranks have to agree for each one that does not."""

Place = tuple[str, int]
"""Group and number of a round."""


@dataclass(frozen=True)
class Changed:
    """Ranks that called two rounds in another order than most.

    Attributes:
        odd: Those ranks.
        rest: The ranks that called them the other way round.
        first: The round that the odd ones called first.
        second: The other round.
    """

    odd: tuple[int, ...]
    rest: tuple[int, ...]
    first: Place
    second: Place


def changed(rounds: Rounds, waits: Sequence[Wait], left_out: Collection[int]) -> Changed | None:
    """Return who changed the order of the calls of a cycle; None where no majority shows it.

    Args:
        rounds: All rounds.
        waits: The cycle, each wait for the rank of the next one.
        left_out: Ranks whose recordings end at an earlier moment: they show no order.
    """
    found = []
    for wait, after in zip(waits, [*waits[1:], waits[0]], strict=True):
        if not (wait.position and after.position) or wait.group == after.group:
            continue
        first, second = (after.group, after.position), (wait.group, wait.position)
        odd, rest = _votes(rounds, first, second, left_out)
        if after.rank in odd and MOST * len(odd) <= len(rest):
            found.append(Changed(odd, rest, first, second))
    return found[0] if len(found) == 1 else None


def _votes(
    rounds: Rounds, one: Place, other: Place, left_out: Collection[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the members of two groups that called a round of the one first, and of the other."""
    sides: tuple[list[int], list[int]] = [], []
    both = rounds.lines[one[0]].keys() & rounds.lines[other[0]].keys()
    for rank in sorted(both - rounds.unsaid - set(left_out)):
        actions = [_action(rounds, rank, place) for place in (one, other)]
        if actions[0] != actions[1]:
            sides[actions[0] > actions[1]].append(rank)
    return tuple(sides[0]), tuple(sides[1])


def _action(rounds: Rounds, rank: int, place: Place) -> float:
    """Return where a rank called a round among its actions; behind all where it has not."""
    line = rounds.lines[place[0]][rank]
    return line.action(place[1]) if line.has(place[1]) else float("inf")
