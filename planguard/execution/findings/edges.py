"""The edges of a wait-for cycle, told from the action that holds the others up.

The run says at which instruction a lane stands. For people the action in front of a queue is the
one to name: an ``irecv`` that has not started because an ``isend`` before it is still in flight is
not where the rank is stuck, the ``isend`` is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planguard.execution.findings.locate import locate
from planguard.execution.findings.members import MEMBER, describe_match, members_of, round_entry
from planguard.execution.findings.stuck import place_of
from planguard.plan.vocabulary import BLOCKING, WHY_OF_OP
from planguard.verdict import CycleEdge

if TYPE_CHECKING:
    from planguard.execution.findings.members import Match
    from planguard.execution.findings.stuck import Cycle, Place, Step
    from planguard.execution.running.executor import Execution
    from planguard.plan.views import ActionView
    from planguard.verdict import Location

SIDES = ("send-unmatched", "recv-unmatched")


@dataclass(frozen=True)
class Link:
    """One edge of a cycle with what sentences need.

    Attributes:
        step: The step, told from the action in front.
        edge: The same as findings carry it.
        own: The rank's own member of the match it waits for: the action itself, the one a ``wait``
            or a computation waits for, or a member of a batch; None for communicator creation.
        is_queued: Nothing but a queue keeps the action's rank from going on.
    """

    step: Step
    edge: CycleEdge
    own: ActionView | None
    is_queued: bool

    @property
    def at(self) -> Location:
        """The action that is stuck."""
        return self.edge.at


def links_of(execution: Execution, cycle: Cycle) -> tuple[Link, ...]:
    """Return the edges of a cycle in its order."""
    owns = [own_place(execution, step.match, step.at.rank) for step in cycle.steps]
    steps = [_in_front(execution, s, own) for s, own in zip(cycle.steps, owns, strict=True)]
    steps = [
        replace(step, behind=after.at) if after.at.rank == step.behind.rank else step
        for step, after in zip(steps, [*steps[1:], *steps[:1]], strict=True)
    ]
    return tuple(
        Link(
            step,
            CycleEdge(
                locate(execution, step.at),
                locate(execution, step.owed),
                locate(execution, step.behind),
                step.why,
            ),
            None if own is None else view_of(execution, own),
            step.why == "queue",
        )
        for step, own in zip(steps, owns, strict=True)
    )


def _in_front(execution: Execution, step: Step, own: Place | None) -> Step:
    """Tell a step from the action in front of the queue; a batch waits for its own members."""
    op = locate(execution, step.at).op
    if op in WHY_OF_OP:
        return replace(step, why=WHY_OF_OP[op])
    if op in BLOCKING and own is not None:
        # On its own an asynchronous message holds up nobody: it stands in a queue.
        return replace(step, why="queue", at=_launch(execution, own))
    if step.why != "queue" or own is None:
        return step
    if own.action == step.at.action:
        return replace(step, why=side_of(step.match, own.rank))
    return replace(step, at=_launch(execution, own))


def _launch(execution: Execution, own: Place) -> Place:
    """Return the place of the batch that a member belongs to; any other action is its own."""
    columns = execution.columns
    entry = own.entry
    while columns.op[columns.rank_off[own.rank] + entry] & MEMBER:
        entry -= 1
    return replace(own, entry=entry)


def side_of(match: Match, rank: int) -> str:
    """Return why a member of an incomplete match waits, as a word of the result schema."""
    if match.type != "pair":
        return "collective-incomplete"
    return SIDES[rank != match.ranks[0]]


def own_place(execution: Execution, match: Match, rank: int) -> Place | None:
    """Return the place of ``rank``'s own member of a match, or None."""
    if match.type not in {"pair", "round", "edge"}:
        return None
    if match.type == "pair":
        # Of a message to oneself both members are its own; the rank stands at the first.
        mine = (m.entry for m in members_of(execution, match) if m.rank == rank)
        entry = min((entry for entry in mine if entry is not None), default=None)
    else:
        # Of a group of thousands only this rank's program is searched.
        entry = round_entry(execution, rank, describe_match(execution, match.number))
    return None if entry is None else place_of(execution, rank, entry)


def view_of(execution: Execution, place: Place) -> ActionView:
    """Return the action at a place; of a batch the member that stands there."""
    columns = execution.columns
    start = columns.rank_off[place.rank]
    member = None
    entry = place.entry
    while columns.op[start + entry] & MEMBER:
        member = 0 if member is None else member + 1
        entry -= 1
    return execution.plan.action_at(place.rank, place.action, member)
