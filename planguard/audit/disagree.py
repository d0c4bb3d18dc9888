"""Rounds whose members disagree, and calls that were skipped, added or swapped before that.

A recorder numbers the collectives of a group. When one rank leaves out a call, everything behind it
meets the wrong partner, and the first visible disagreement may lie far behind the cause. Call sites
show where the sequence of a rank departs from the others'.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.audit.rounds import HOLE

if TYPE_CHECKING:
    from planguard.audit.rounds import Line, Rounds

MAX_SHIFT = 8
"""Most calls that a rank may have left out or added for the shift to be recognized."""
WINDOW = 64
"""Calls behind a departure that have to fit the shift."""


@dataclass(frozen=True)
class Disagreement:
    """The first round of a group whose members do not fit.

    Attributes:
        group: The group.
        position: The round.
        odd: Ranks that differ from most of the others.
        rest: The other members.
        fields: Fields of the signature that differ: ``family``, ``count``, ...
        is_tie: As many ranks say the one as the other: nobody can be blamed.
    """

    group: str
    position: int
    odd: tuple[int, ...]
    rest: tuple[int, ...]
    fields: tuple[str, ...]
    is_tie: bool


@dataclass(frozen=True)
class Departure:
    """The place where the calls of a rank stop being those of the others.

    Attributes:
        group: The group.
        rank: The rank.
        reference: A rank that did what most did.
        position: First round at which the rank calls something else.
        kind: ``skipped``, ``added`` or ``swapped``.
        calls: Number of calls left out or added; the distance of a swap.
        is_tie: Nobody can be blamed: the other side may be the one that departed.
    """

    group: str
    rank: int
    reference: int
    position: int
    kind: str
    calls: int
    is_tie: bool


FIELDS = ("family", "count", "dtype", "shape", "root", "reduce_op")


def disagreements(rounds: Rounds) -> list[Disagreement]:
    """Return the first round of every group whose members disagree."""
    found = []
    for group, lines in rounds.lines.items():
        if len(lines) > 1:
            position = _first(rounds, list(lines.values()))
            if position is not None:
                found.append(_explain(rounds, group, lines, position))
    return sorted(found, key=lambda one: (one.group, one.position))


def _first(rounds: Rounds, lines: list[Line]) -> int | None:
    """Return the first position at which two members disagree."""
    reference = max(lines, key=lambda line: len(line.signs))
    firsts = []
    for line in lines:
        low = max(line.first, reference.first)
        high = min(line.end, reference.end)
        if line is reference or high < low:
            continue
        mine = line.signs[low - line.first : high + 1 - line.first]
        theirs = reference.signs[low - reference.first : high + 1 - reference.first]
        if mine == theirs:
            continue
        for place, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            if one != other and not rounds.agree(one, other):
                firsts.append(low + place)
                break
    return min(firsts, default=None)


def _explain(rounds: Rounds, group: str, lines: dict[int, Line], position: int) -> Disagreement:
    votes = Counter(line.sign(position) for line in lines.values() if line.sign(position) != HOLE)
    ordered = votes.most_common()
    usual, most = ordered[0]
    here = [rank for rank, line in lines.items() if line.has(position)]
    odd = [rank for rank in here if not rounds.agree(lines[rank].sign(position), usual)]
    rest = [rank for rank in here if rank not in set(odd)]
    is_tie = len(odd) == len(rest) or (len(ordered) > 1 and ordered[1][1] == most)
    fields = {
        name
        for rank in odd
        for name, a, b in zip(
            FIELDS, rounds.signs[lines[rank].sign(position)], rounds.signs[usual], strict=True
        )
        if a is not None and b is not None and a != b
    }
    kept = tuple(name for name in FIELDS if name in fields)
    return Disagreement(group, position, tuple(sorted(odd)), tuple(sorted(rest)), kept, is_tie)


def departures(rounds: Rounds) -> list[Departure]:
    """Return where the call sites of ranks depart from those of most members of a group."""
    found = []
    for group, lines in rounds.lines.items():
        if len(lines) < 2:
            continue
        keys = {
            rank: (line.first, tuple(line.sites), tuple(line.signs)) for rank, line in lines.items()
        }
        counted = Counter(keys.values())
        if len(counted) == 1:
            continue
        usual, is_tie = _usual(lines, counted)
        reference = min(rank for rank, key in keys.items() if key == usual)
        for rank, line in sorted(lines.items()):
            if keys[rank] != usual:
                one = _departure(group, line, lines[reference], is_tie=is_tie)
                if one is not None:
                    found.append(one)
    return found


Key = tuple[int, tuple[int, ...], tuple[int, ...]]
"""First position, call sites and signatures of one rank's calls on a group."""


def _usual(lines: dict[int, Line], counted: Counter[Key]) -> tuple[Key, bool]:
    """Return the sequence that most ranks follow, and whether there is none such."""
    ordered = sorted(counted, key=lambda key: (counted[key], len(key[1])), reverse=True)
    if counted[ordered[0]] > 1:
        return ordered[0], counted[ordered[1]] == counted[ordered[0]]
    # Every rank was stopped somewhere else: vote at the first position where two differ.
    low, high = max(key[0] for key in counted), max(line.end for line in lines.values())
    for position in range(low, high + 1):
        votes = Counter(
            (key[1][position - key[0]], key[2][position - key[0]])
            for key in ordered
            if position - key[0] < len(key[1])
        )
        if len(votes) > 1:
            (value, most), (_, second) = votes.most_common(2)
            for key in sorted(ordered, key=lambda key: len(key[1]), reverse=True):
                place = position - key[0]
                if place < len(key[1]) and (key[1][place], key[2][place]) == value:
                    return key, most == second
    return ordered[0], len(ordered) == 2


def _departure(group: str, line: Line, usual: Line, *, is_tie: bool) -> Departure | None:
    low, high = max(line.first, usual.first), min(line.end, usual.end)
    mine = _calls(line, low)
    theirs = _calls(usual, low)
    place = next((n for n in range(high + 1 - low) if mine[n] != theirs[n]), None)
    if place is None:
        return None
    mine, theirs = mine[place:], theirs[place:]
    position = low + place

    def depart(kind: str, calls: int) -> Departure:
        return Departure(group, line.rank, usual.rank, position, kind, calls, is_tie)

    for shift in range(1, MAX_SHIFT + 1):
        behind = shift + 1
        swaps = len(mine) > shift and len(theirs) > shift
        if swaps and mine[0] == theirs[shift] and mine[shift] == theirs[0]:
            rest = mine[behind:], theirs[behind:]
            if mine[1:shift] == theirs[1:shift] and (not all(rest) or _fits(*rest)):
                return depart("swapped", shift)
        if _fits(mine, theirs[shift:]):
            return depart("skipped", shift)
        if _fits(mine[shift:], theirs):
            return depart("added", shift)
    return None


def _calls(line: Line, low: int) -> list[tuple[int, int]]:
    skip = low - line.first
    return list(zip(line.sites[skip:], line.signs[skip:], strict=True))


def _fits(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> bool:
    """Tell whether two sequences agree as far as both go, and go far enough to mean something."""
    reach = min(len(one), len(other), WINDOW)
    return reach > 0 and one[:reach] == other[:reach]
