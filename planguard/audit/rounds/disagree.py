"""Rounds whose members disagree, and calls that were skipped, added or swapped before that.

A recorder numbers the collectives of a group. When one rank leaves out a call, everything behind it
meets the wrong partner, and the first visible disagreement may lie far behind the cause. Call sites
show where the sequence of a rank departs from the others'.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from planguard.audit.rounds.rounds import HOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.rounds.rounds import Line, Rounds
    from planguard.audit.rounds.waits import Wait

MAX_SHIFT = 8
"""Most calls that a rank may have left out or added for the shift to be recognized."""
MAX_PEERS = 8
"""Waiting ranks that a missing one is compared with, call by call over all groups."""
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
        if line.signs is reference.signs and line.first == reference.first:
            continue  # ranks that make the same calls share them
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
    signs = (line.sign(position) for line in lines.values())
    # What says nothing of itself has no vote.
    votes = Counter(sign for sign in signs if sign != HOLE and any(rounds.signs[sign]))
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
        # By identity first: lines that are alike share their columns, mostly.
        known: dict[tuple[int, int, int], Key] = {}
        keys = {}
        for rank, line in lines.items():
            own = line.first, id(line.sites), id(line.signs)
            if own not in known:
                known[own] = line.first, tuple(line.sites), tuple(line.signs)
            keys[rank] = known[own]
        if len(known) == 1:
            continue
        counted = Counter(keys.values())
        if len(counted) == 1:
            continue
        usual, is_tie = _usual(lines, counted)
        reference = min(rank for rank, key in keys.items() if key == usual)
        for rank, line in sorted(lines.items()):
            if keys[rank] != usual:
                one = _departure(rounds, group, (line, lines[reference]), is_tie=is_tie)
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


def _departure(
    rounds: Rounds, group: str, lines: tuple[Line, Line], *, is_tie: bool
) -> Departure | None:
    line, usual = lines
    low = max(line.first, usual.first)
    found = _shift(_calls(rounds, line, low), _calls(rounds, usual, low))
    if found is None:
        return None
    place, kind, calls = found
    return Departure(group, line.rank, usual.rank, low + place, kind, calls, is_tie)


def _shift(mine: Sequence[object], theirs: Sequence[object]) -> tuple[int, str, int] | None:
    """Return where a sequence departs from another one, how, and by how many calls."""
    reach = min(len(mine), len(theirs))
    place = next((n for n in range(reach) if mine[n] != theirs[n]), None)
    if place is None:
        return None
    mine, theirs = mine[place:], theirs[place:]
    if len(mine) > 1 and len(theirs) > 1 and _fits(mine[1:], theirs[1:]):
        return None  # one call came from another line, and nothing moved: a retry, for example
    for shift in range(1, MAX_SHIFT + 1):
        behind = shift + 1
        swaps = len(mine) > shift and len(theirs) > shift
        if swaps and mine[0] == theirs[shift] and mine[shift] == theirs[0]:
            rest = mine[behind:], theirs[behind:]
            if mine[1:shift] == theirs[1:shift] and (not all(rest) or _fits(*rest)):
                return place, "swapped", shift
        if _fits(mine, theirs[shift:]):
            return place, "skipped", shift
        if _fits(mine[shift:], theirs):
            return place, "added", shift
    return None


def skipped(rounds: Rounds, waits: Sequence[Wait]) -> Departure | None:
    """Return the call that a missing rank left out, where only all its groups together show it.

    Within one group a loop calls from one line, so a call left out looks like one that never came.
    Between the calls on other groups its place is empty.
    """
    first = waits[0]
    absent = {wait.target for wait in waits}
    if not first.position or len(absent) != 1:
        return None
    (rank,) = absent
    peers = sorted({wait.rank for wait in waits})[:MAX_PEERS]
    found = [one for peer in peers if (one := _across(rounds, rank, peer)) is not None]
    agreed = Counter((one.group, one.position) for one in found).most_common(1)
    if not agreed or agreed[0][1] < len(peers):
        return None
    one = next(one for one in found if (one.group, one.position) == agreed[0][0])
    return one if one.group == first.group and len(peers) > 1 else None


def _across(rounds: Rounds, rank: int, peer: int) -> Departure | None:
    """Return the call that a rank left out among those on all groups shared with another one."""
    shared = [
        (group, lines[rank], lines[peer])
        for group, lines in rounds.lines.items()
        if rank in lines and peer in lines
    ]
    if len(shared) < 2 or any(mine.first != theirs.first for _, mine, theirs in shared):
        return None
    if any(not rounds.is_told(sign) for _, *pair in shared for one in pair for sign in one.signs):
        return None
    mine = _merged([(group, line) for group, line, _ in shared])
    theirs = _merged([(group, line) for group, _, line in shared])
    found = _shift([key for _, key in mine], [key for _, key in theirs])
    if found is None or found[1] != "skipped":
        return None
    place, kind, calls = found
    (position, (group, *_)) = theirs[place]
    same = [key[0] for _, key in theirs[place : place + calls]]
    if set(same) != {group}:
        return None
    return Departure(group, rank, peer, position, kind, calls, is_tie=False)


def _merged(lines: list[tuple[str, Line]]) -> list[tuple[int, tuple[str, int, int]]]:
    """Return number, group, call site and signature of the calls on several groups, as issued."""
    rows = [
        (action, line.first + place, (group, line.sites[place], line.signs[place]))
        for group, line in lines
        for place, action in enumerate(line.actions)
        if action != HOLE
    ]
    return [(position, key) for _, position, key in sorted(rows)]


def causes(
    rounds: Rounds, found: Sequence[Disagreement]
) -> list[tuple[Disagreement, list[Disagreement]]]:
    """Return the disagreements that are causes, each with those that follow from it or are like it.

    A rank that went out of step on one group is out of step on the others behind that. And one
    wrong size disagrees in every group that its ranks belong to.
    """
    ordered = sorted(found, key=lambda one: (_earliest(rounds, one), one.group))
    kept: list[tuple[Disagreement, list[Disagreement]]] = []
    for one in ordered:
        owner = next((own for own in kept if _belongs(rounds, one, own[0])), None)
        if owner is None:
            kept.append((one, []))
        else:
            owner[1].append(one)
    return kept


def _earliest(rounds: Rounds, one: Disagreement) -> int:
    lines = rounds.lines[one.group]
    return min(lines[rank].action(one.position) for rank in one.odd)


def _belongs(rounds: Rounds, one: Disagreement, cause: Disagreement) -> bool:
    mine, theirs = rounds.lines[one.group], rounds.lines[cause.group]
    blamed = {*cause.odd, *cause.rest} if cause.is_tie else set(cause.odd)
    own = {*one.odd, *one.rest} if one.is_tie else set(one.odd)
    behind = any(
        mine[rank].action(one.position) > theirs[rank].action(cause.position)
        for rank in blamed & own
    )
    return behind or _calls_of(rounds, one) == _calls_of(rounds, cause)


def _calls_of(rounds: Rounds, one: Disagreement) -> tuple[object, ...]:
    """Return what the two sides of a disagreement call, and from where."""
    lines = rounds.lines[one.group]
    sides = (lines[one.odd[0]], lines[one.rest[0]]) if one.rest else (lines[one.odd[0]],)
    keys = sorted(
        (line.sites[one.position - line.first], line.sign(one.position)) for line in sides
    )
    return one.fields, *keys


def _calls(rounds: Rounds, line: Line, low: int) -> list[tuple[int, int]]:
    """Return site and signature of the calls that follow each other, up to one that is not known.

    A log counts calls that it does not name: of those nothing says whether they differ.
    """
    skip = low - line.first
    calls = zip(line.sites[skip:], line.signs[skip:], strict=True)
    return list(takewhile(lambda call: rounds.is_told(call[1]), calls))


def _fits(one: Sequence[object], other: Sequence[object]) -> bool:
    """Tell whether two sequences agree as far as both go, and go far enough to mean something."""
    reach = min(len(one), len(other), WINDOW)
    return reach > 0 and one[:reach] == other[:reach]
