"""Ranks whose flushes stay open beside other calls, as programs without buffers.

Where every communicator sees one sequence, what is left open on a rank is the order of events on
different communicators (`fusion_events`). The program written here issues every event as a call of
its own in an `unordered` block, after the events that always come before it. It admits every order
of events that the rank has, so if it is SAFE the plan is, and if all its orders deadlock those of
the plan do. It may admit more: "X, then Y, then the bucket that needs both" need not leave room for
a fourth call before the bucket. But which of *two* events may come first is the same, and a cycle
of waits asks every rank for two events only (docs/explanation/fused-buffers.md).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.plan.rows import with_markers
from planguard.reordering.buffers.events import Event, starts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planguard.reordering.buffers.merge import Merged
    from planguard.reordering.buffers.play import Cause, Played
    from planguard.reordering.buffers.rank import Extension, FusedRank
    from planguard.reordering.buffers.ranks import Ranks
    from planguard.verdict import Verdict

ORDERS = 64
"""Most ways to bring the events of a stuck state about that are played."""

Relation = dict[tuple[Any, ...], list[list[int]]]
"""Events of a block with what precedes their elements -> for each, those right before it."""


@dataclass(frozen=True)
class Opened:
    """The program of one rank with its open events in blocks.

    Attributes:
        played: The program; its actions are `unordered` blocks where events are open.
        events: What every action is, by its number among those that are issued; None where its
            place is fixed.
    """

    played: Played
    events: tuple[Event | None, ...]


def opened(
    rank: FusedRank, played: Played, events: Sequence[Event], known: Relation
) -> Opened | None:
    """Return the program of a rank with its events left open, None if all are in one order.

    Args:
        rank: The rank.
        played: What it issues in the usual order.
        events: Its flushes, and all that stands beside them.
        known: What was found out for other ranks with the same blocks.
    """
    flushes = {
        (at, event.members): event
        for at, held in enumerate(rank.held)
        for event in events
        if event.held is held
    }
    found = [None if cause is None else _event(cause, flushes) for cause in played.causes]
    actions: list[dict[str, Any]] = []
    is_open = False
    for part, numbers in itertools.groupby(
        range(len(found)), lambda at: _part(rank, played.causes[at])
    ):
        mine = list(numbers)
        body = [played.actions[at] for at in mine]
        if part is not None and len(mine) > 1:
            before = _right_before(rank, [_known(found[at]) for at in mine], known)
            if any(after != [at - 1] for at, after in enumerate(before) if at):
                is_open = True
                body = [_block(body, before, len(actions))]
        actions += body
    if not is_open:
        return None
    each = zip(found, played.widths, strict=True)
    issued = tuple(event for event, width in each for _ in range(width))
    return Opened(replace(played, actions=actions, taken=None), issued)


def _known(event: Event | None) -> Event:
    assert event is not None  # noqa: S101  what is in a block of members has a cause
    return event


def _part(rank: FusedRank, cause: Cause | None) -> int | None:
    return None if cause is None else rank.parts[cause.element]


def _event(cause: Cause, flushes: dict[tuple[int, frozenset[int]], Event]) -> Event:
    """Return the event that let an action be issued."""
    if cause.flush is None:
        return Event(1 << cause.element, first=False, place=(cause.element, -1), queues=frozenset())
    number, members = cause.flush
    event = flushes.get((number, frozenset(members)))
    # A buffer of a group of one rank: what it holds, and when it leaves, is nobody else's concern.
    return event or Event(1 << cause.element, first=False, place=(0, 0), queues=frozenset())


def _right_before(rank: FusedRank, events: Sequence[Event], known: Relation) -> list[list[int]]:
    """Return, for every event of a block, those that always come before it and are its neighbors.

    The events are given in one order in which they come. Of two that come at the same time the
    earlier one counts as before.
    """
    key = (rank.below, tuple((event.elements, event.first) for event in events))
    if key not in known:
        known[key] = _neighbors(rank, events)
    return known[key]


def _neighbors(rank: FusedRank, events: Sequence[Event]) -> list[list[int]]:
    found: list[list[int]] = []
    before: list[int] = []
    for at, event in enumerate(events):
        least = starts(rank, event)
        always = 0
        for other in range(at):
            earlier = events[other]
            if earlier.first:
                holds = all(earlier.elements & early for early in least)
            else:
                holds = all(not earlier.elements & ~early for early in least)
            always |= holds << other
        covered, mine = 0, []
        for other in range(at - 1, -1, -1):
            if always >> other & 1 and not covered >> other & 1:
                mine.append(other)
                covered |= before[other] | 1 << other
        found.append(mine)
        before.append(always)
    return found


def _block(
    body: Sequence[dict[str, Any]], before: Sequence[Sequence[int]], number: int
) -> dict[str, Any]:
    """Return actions as a block, each after the ones right before it."""
    names = [str(action.get("id", f"~{number}.{at}")) for at, action in enumerate(body)]
    return {
        "op": "unordered",
        "body": [
            {**action, "id": name, **({"after": [names[one] for one in after]} if after else {})}
            for action, name, after in zip(body, names, before, strict=True)
        ],
    }


def stands_of(
    merged: Merged, verdict: Verdict, rooms: Mapping[int, Opened | None]
) -> dict[int, Event]:
    """Return at which open event each rank stands in the stuck state that a verdict shows.

    Args:
        merged: The plan of the programs.
        verdict: The verdict on it.
        rooms: The programs with open events, by rank.
    """
    finding = verdict.errors[0]
    # The cycle first: it is the same with a witness and without.
    places = {(edge.at.rank, edge.at.action) for edge in finding.cycle}
    if finding.witness is not None and not places:
        places = set(finding.witness.blocked)
    found: dict[int, Event] = {}
    for rank, action in sorted(places):
        room = rooms.get(rank)
        if room is None:
            continue
        numbers = range(len(room.events))
        event = room.events[with_markers(merged.ordered.plan.program(rank), numbers)[action]]
        if event is not None:
            found[rank] = event
    return found


def ways(ranks: Ranks, stands: dict[int, Event]) -> Iterator[list[tuple[int, Extension]]]:
    """Yield orders in which given ranks get to an event as early as they can, up to a limit.

    Whatever may come behind the event then does.
    """
    choices = [
        [(rank, ranks[rank].down_first(early)) for early in starts(ranks[rank], event)]
        for rank, event in sorted(stands.items())
    ]
    yield from map(list, itertools.islice(itertools.product(*choices), ORDERS))
