"""Why one stuck action waits for another: labels and sentences of edges.

Both are made of the same ``CycleEdge`` that the result file carries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.words import MAX_NAMED

if TYPE_CHECKING:
    from planguard.verdict import CycleEdge, Location

_SENTENCES = {
    "send-unmatched": "cannot complete before rank {rank} starts the matching {other}",
    "recv-unmatched": "cannot complete before rank {rank} starts the matching {other}",
    "collective-incomplete": "cannot complete before rank {rank} enters the same round",
    "wait-handle": "waits for an action that needs rank {rank}'s {op}",
    "stream-edge": "comes after an action that needs rank {rank}'s {op}",
    "event": "comes after an action that needs rank {rank}'s {op}",
    "queue": "holds up its queue until rank {rank} starts the matching {other}",
    "dependency": "needs data that do not come before rank {rank}'s {op}",
    "init": "blocks until rank {rank} joins the creation of the communicator",
    "exited": "waits for rank {rank}, which has left",
}
_ALONE = {
    "send-unmatched": "no matching recv is ever issued",
    "recv-unmatched": "no matching send is ever issued",
    "collective-incomplete": "not every member of the group enters this round",
    "wait-handle": "what it waits for never gets its partner",
    "stream-edge": "what it comes after never gets its partner",
    "event": "what it comes after never gets its partner",
    "queue": "its queue is held up by an action that never gets its partner",
    "dependency": "the data it needs never come",
    "init": "not every member ever takes part in creating the communicator",
    "exited": "a rank that it needs has left",
}
_QUIET = {"send-unmatched", "recv-unmatched", "collective-incomplete", "wait-handle", "event"}


def name(place: Location) -> str:
    """Return the short name of an action: ``r5#1284``."""
    return f"r{place.rank}#{place.action}"


def sentence(edge: CycleEdge) -> str:
    """Return why the edge's action does not go on, in one sentence without a period."""
    goal = edge.waits_for
    if goal is None:
        return _ALONE[edge.why]
    other = "call in its batch" if goal.op == "batch" else goal.op
    text = _SENTENCES[edge.why].format(rank=goal.rank, op=goal.op, other=other)
    return f"{text} (its #{goal.action})"


def label(edge: CycleEdge) -> str:
    """Return the word on an edge: the operation that waits, or what else makes it wait."""
    return edge.at.op if edge.why in _QUIET and edge.at.op else edge.why


def around(cycle: tuple[CycleEdge, ...]) -> str:
    """Return the way around a cycle: ``r5#1284 -[send]-> r6#1283 -[send]-> r5#1284``."""
    shown = cycle if len(cycle) <= MAX_NAMED else cycle[: MAX_NAMED - 1]
    way = " ".join(f"{name(edge.at)} -[{label(edge)}]->" for edge in shown)
    more = f" ({len(cycle) - len(shown)} more) ->" if len(shown) < len(cycle) else ""
    return f"{way}{more} {name(cycle[0].at)}"
