"""What two plans do in another order, rank by rank: only here, only there, moved, changed.

A rank's actions are compared as a person reads them: operation, group or peer, label, size, stage
and microbatch. Durations are left to the times. A wait is told by the call that it waits for, since
the names of handles mean nothing across plans. Ranks that differ alike are told once.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from planguard.plan import nodes as n
from planguard.plan.describe import describe
from planguard.recording.compare import ALIGNED, align
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.plan.plan import Plan

READ = 400_000
"""Most actions of both plans that are read; beyond it one rank of every pair of programs is."""
CELLS = 5 * ALIGNED
"""Most cells of all alignments together."""
SHOWN = 200
"""Most differences of one set of ranks that are told one by one."""
Pairs = list[tuple[int | None, int | None]]


class Change(NamedTuple):
    """One difference: the kind, the places in both programs and the texts that stand there.

    Attributes:
        kind: ``only A``, ``only B``, ``moved`` or ``changed``.
        a: Action in the first plan, or None.
        b: Action in the second plan, or None.
        text: What stands in the first plan, or in the one that has it.
        other: What stands in the second plan where that is something else, or "".
    """

    kind: str
    a: int | None
    b: int | None
    text: str
    other: str = ""


@dataclass(frozen=True)
class Differs:
    """Ranks whose programs differ in the same way.

    Attributes:
        ranks: These ranks; they run the same two programs and differ at the same places.
        changes: The differences in program order, at most ``SHOWN``, with the peers and groups of
            the first of these ranks.
        count: How many there are.
        aligned: False where the part between equal beginnings and ends is too long to be aligned:
            then all of it is told as being only in one plan.
    """

    ranks: tuple[int, ...]
    changes: tuple[Change, ...]
    count: int
    aligned: bool


@dataclass(frozen=True)
class Order:
    """The comparison of all programs.

    Attributes:
        differs: Sets of ranks that differ, that of the lowest rank first.
        equal: Number of ranks whose programs are equal.
        only: Ranks that only one of the plans has.
        note: What was not compared, or "".
    """

    differs: tuple[Differs, ...]
    equal: int
    only: tuple[int, ...]
    note: str = ""


def order(a: Plan, b: Plan) -> Order:
    """Compare the programs of two plans, rank by rank."""
    both = min(a.world_size, b.world_size)
    only = tuple(range(both, max(a.world_size, b.world_size)))
    ranks, note = _compared(a, b, both)
    known: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[Pairs, bool]] = {}
    same: dict[tuple[Any, ...], tuple[list[int], tuple[Change, ...], bool]] = {}
    equal, cells = 0, CELLS
    for rank in ranks:
        texts = _texts(a, rank), _texts(b, rank)
        if texts[0] == texts[1]:
            equal += 1
            continue
        if texts not in known:
            known[texts] = _aligned(*texts, min(ALIGNED, cells))
            cells -= _cells(*texts, known[texts][0])
        pairs, aligned = known[texts]
        changes = tuple(_changes(*texts, pairs))
        programs = a.code.rank_program[rank], b.code.rank_program[rank]
        key = programs, tuple(change[:3] for change in changes), aligned
        same.setdefault(key, ([], changes, aligned))[0].append(rank)
    told = tuple(
        Differs(tuple(found), changes[:SHOWN], len(changes), aligned)
        for found, changes, aligned in same.values()
    )
    return Order(told, equal, only, note)


def _compared(a: Plan, b: Plan, both: int) -> tuple[Sequence[int], str]:
    """Return the ranks to compare, and what that leaves out."""
    if a.actions + b.actions <= READ:
        return range(both), ""
    first: dict[tuple[int, int], int] = {}
    for rank in range(both):
        first.setdefault((a.code.rank_program[rank], b.code.rank_program[rank]), rank)
    ranks = []
    left = READ
    for rank in first.values():
        left -= a.length(rank) + b.length(rank)
        if left < 0:
            break
        ranks.append(rank)
    note = f"of {both:,} ranks {len(ranks):,} were compared, one of every pair of programs"
    if len(ranks) < len(first):
        note = f"of {len(first):,} pairs of programs {len(ranks):,} were compared"
    return ranks, f"{note}: the plans have {a.actions + b.actions:,} actions together"


def _texts(plan: Plan, rank: int) -> tuple[str, ...]:
    """Return the actions of a rank as texts that mean the same in every plan."""
    issued: dict[str, str] = {}
    found = []
    for index in range(plan.length(rank)):
        view = plan.action_at(rank, index)
        node: Any = view.action
        if isinstance(node, n.Wait | n.Test | n.Drop):
            works = [node.work] if isinstance(node.work, str) else list(node.work)
            named = [issued.get(work, "a call before") for work in works]
            mode = getattr(node, "mode", UNSET)
            which = "" if mode is UNSET or mode == "all" else f"{mode} of "
            found.append(f"{view.op} for {which}{', '.join(named)}")
            continue
        text = clean(describe(plan, view))
        for name, word in (("stage", "stage"), ("mb", "microbatch")):
            value = getattr(node, name, UNSET)
            if value is not UNSET:
                text += f"  {word} {value}"
        found.append(text)
        for one in (node, *getattr(node, "ops", ())):
            own = getattr(one, "work", UNSET)
            if own is not UNSET:
                issued[own] = text
    return tuple(found)


def _aligned(one: tuple[str, ...], two: tuple[str, ...], most: int) -> tuple[Pairs, bool]:
    pairs = align(one, two, operator.eq, most=most)
    # Where both sides of a middle beyond the limit are told apart, something of it may be common.
    return pairs, _cells(one, two, pairs) <= most


def _cells(one: tuple[str, ...], two: tuple[str, ...], pairs: Pairs) -> int:
    """Return the size of the table between the equal beginnings and ends."""
    open_ = [at for at, (x, y) in enumerate(pairs) if x is None or y is None]
    equal = open_[0] + len(pairs) - 1 - open_[-1]
    return (len(one) - equal) * (len(two) - equal)


def _changes(one: tuple[str, ...], two: tuple[str, ...], pairs: Pairs) -> Iterator[Change]:
    """Yield the differences in program order: what left and came is moved, or changed in place."""
    left: dict[str, list[int]] = defaultdict(list)
    came: dict[str, list[int]] = defaultdict(list)
    for x, y in pairs:
        if y is None and x is not None:
            left[one[x]].append(x)
        elif x is None and y is not None:
            came[two[y]].append(y)
    moved_to = {
        x: y for text, places in left.items() for x, y in zip(places, came[text], strict=False)
    }
    taken = set(moved_to.values())
    hunk: tuple[list[int], list[int]] = [], []
    for x, y in [*pairs, (0, 0)]:
        if x is not None and y is not None:
            yield from _hunk(one, two, *hunk)
            hunk = [], []
        elif x is not None and x in moved_to:
            yield Change("moved", x, moved_to[x], one[x])
        elif x is not None:
            hunk[0].append(x)
        elif y is not None and y not in taken:
            hunk[1].append(y)


def _hunk(
    one: tuple[str, ...], two: tuple[str, ...], left: list[int], came: list[int]
) -> Iterator[Change]:
    """Yield what stands between two equal places: calls of one operation are one that changed."""
    rest = list(came)
    for x in left:
        word = one[x].split(" ", 1)[0]
        y = next((y for y in rest if two[y].split(" ", 1)[0] == word), None)
        if y is None:
            yield Change("only A", x, None, one[x])
            continue
        rest.remove(y)
        yield Change("changed", x, y, one[x], two[y])
    yield from (Change("only B", None, y, two[y]) for y in rest)
