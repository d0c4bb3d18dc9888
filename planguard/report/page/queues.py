"""What lies in the message queues of each rank where a run ends.

Sends of its own that wait, receives that it posted, and messages to it that no receive took: the
three queues of a process that debuggers of MPI show (pending sends, pending receives, unexpected
messages).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.report.places import Places, shown
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.plan import Plan
    from planguard.simulate.schedule import Schedule, Span

SENDS, RECEIVES, UNEXPECTED = "sends that wait", "receives posted", "messages nobody received"
SHOWN = 2_000
"""Most rows of the page."""


def queues(plan: Plan, run: Schedule | None) -> dict[str, Any]:
    """Return the queues of all ranks where the run ends, each in the order of its calls.

    Args:
        plan: The plan.
        run: Its run under the model of time; without one nothing is known.

    Returns:
        ``rows`` of rank, queue, place in it from 1, action, call, peer (empty: any) and line; and
        ``more``, how many are left out.
    """
    spans = [] if run is None else [one for one in run.spans if one.kind in ("send", "recv")]
    taken = {one.match for one in spans if one.kind == "recv" and one.end is not None}
    left = [
        one for one in spans if one.end is None or (one.kind == "send" and one.match not in taken)
    ]
    entries: list[tuple[int, str, Span, int | None]] = []
    for one in left:
        peer = _peer(plan, one)
        if one.kind == "recv":
            entries.append((one.rank, RECEIVES, one, peer))
            continue
        if one.end is None:
            entries.append((one.rank, SENDS, one, peer))
        if peer is not None:
            entries.append((peer, UNEXPECTED, one, one.rank))
    order = (SENDS, RECEIVES, UNEXPECTED)
    entries.sort(key=lambda e: (e[0], order.index(e[1]), e[2].start, e[2].rank, e[2].action))
    rows = list(_rows(plan, entries[:SHOWN]))
    return {"rows": rows, "more": max(0, len(entries) - SHOWN)}


def _peer(plan: Plan, span: Span) -> int | None:
    node: Any = plan.action_at(span.rank, span.action, span.member).action
    return plan.peer(span.rank, node)


def _rows(plan: Plan, entries: list[tuple[int, str, Span, int | None]]) -> Iterator[list[Any]]:
    places = Places(plan.file or "", plan)
    counted: dict[tuple[int, str], int] = {}
    for rank, queue, span, peer in entries:
        at = counted[rank, queue] = counted.get((rank, queue), 0) + 1
        place = plan.location(span.rank, span.action, span.member)
        spot = places.spot(place)
        line = "" if spot.line is None else clean(f"{shown(spot.file)}:{spot.line}")
        text = clean(place.text or place.op)
        yield [rank, queue, at, span.action, text, "any" if peer is None else peer, line]
