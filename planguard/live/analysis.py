"""Who can never move again: a closed set of waiting ranks, found in the states of all ranks.

A rank waits for every member that has not reached its round, and for the other side of its message
(AND-waits): one that never comes is enough. A rank that computes may still come, so only a set in
which somebody awaited is stuck too, has ended, or disagrees is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.execution.waits import circles, shortest_through
from planguard.live.state import channel
from planguard.plan.vocabulary import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.live.state import Call, RankState


NEW_GROUP = "new_group"
"""Creation waits in the store: who has come is not counted, only that all of them stand there."""


@dataclass(frozen=True)
class Wait:
    """Why a stuck rank cannot go on.

    Attributes:
        rank: The rank.
        call: The call it stands in.
        missing: Ranks that have not come, as far as they are stuck or have ended.
        ended: Those of them that have ended.
        disagree: Everybody has come; the calls do not fit each other.
        partners: Ranks that came to such a call, with the last call of each.
    """

    rank: int
    call: Call
    missing: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    disagree: bool = False
    partners: tuple[tuple[int, Call], ...] = ()


@dataclass(frozen=True)
class Stuck:
    """A set of ranks that can never move again.

    Attributes:
        waits: Why, per rank, in rank order.
        cycle: Ranks of a wait-for cycle, or empty when somebody never comes.
        everybody: All ranks of the job are stuck or have ended.
    """

    waits: tuple[Wait, ...]
    cycle: tuple[int, ...]
    everybody: bool

    @property
    def ranks(self) -> tuple[int, ...]:
        """The stuck ranks."""
        return tuple(wait.rank for wait in self.waits)


def find_stuck(states: Mapping[int, RankState], timeout: float, world_size: int) -> Stuck | None:
    """Return the ranks that can never move again, None when there may be progress.

    Args:
        states: The last state of every rank that is known.
        timeout: Seconds in one call after which a rank is suspected.
        world_size: Number of ranks of the job.
    """
    suspects = {
        rank: state
        for rank, state in states.items()
        if state.current is not None and state.since_s >= timeout and not state.has_ended
    }
    waits = {rank: _wait(state, states, suspects) for rank, state in suspects.items()}
    kept = {rank: wait for rank, wait in waits.items() if wait is not None}
    while True:
        closed = {
            rank: wait
            for rank, wait in kept.items()
            if wait.disagree or wait.ended or any(other in kept for other in wait.missing)
        }
        if len(closed) == len(kept):
            break
        kept = closed
    if not kept:
        return None
    kept |= _held_below(kept, suspects, states)
    gone = {rank for rank, state in states.items() if state.has_ended}
    everybody = len(set(kept) | gone) == world_size
    ordered = tuple(kept[rank] for rank in sorted(kept))
    return Stuck(ordered, _cycle(kept), everybody)


def _wait(
    state: RankState, states: Mapping[int, RankState], suspects: Mapping[int, RankState]
) -> Wait | None:
    """Return why a suspect waits, None when somebody it waits for may still come."""
    call = state.current
    if call is None:
        return None
    absent = _absent(state.rank, call, states)
    if not absent:
        # Everybody has come, and it still waits: sizes or kinds that do not fit, or a lost handle.
        others = [r for r in _partners(call) if r != state.rank]
        still = all(r in suspects or states[r].has_ended for r in others if r in states)
        if not still or not state.is_certain:
            return None
        known = [(r, states[r].current) for r in others if r in states]
        partners = tuple((r, last) for r, last in known if last is not None)
        return Wait(state.rank, call, disagree=True, partners=partners)
    stuck = tuple(r for r in absent if r in suspects)
    ended = tuple(r for r in absent if r in states and states[r].has_ended)
    if not stuck and not ended:
        return None
    return Wait(state.rank, call, tuple(sorted({*stuck, *ended})), ended)


def _held_below(
    kept: Mapping[int, Wait],
    suspects: Mapping[int, RankState],
    states: Mapping[int, RankState],
) -> dict[int, Wait]:
    """Return the partners of calls that do not fit which wait below Python, as in DDP's reducer.

    That such a rank waits is concluded, not seen. Beside a wait that was seen, in a call to which
    it has come and in which all stand still, it is as stuck, if it stands in torch's own code.
    One that stands in the program's code may compute.
    """
    found: dict[int, Wait] = {}
    for wait in kept.values():
        for rank, call in wait.partners if wait.disagree else ():
            state = suspects.get(rank)
            if state is None or rank in kept or state.is_certain or not state.stands_in_torch:
                continue
            if not _absent(rank, call, states):
                partners = ((wait.rank, wait.call),)
                found[rank] = Wait(rank, call, disagree=True, partners=partners)
    return found


def _partners(call: Call) -> tuple[int, ...]:
    if call.op in MESSAGES:
        return () if call.peer is None else (call.peer,)
    return call.ranks


def _absent(rank: int, call: Call, states: Mapping[int, RankState]) -> list[int]:
    """Return the ranks whose part of a call has not been issued."""
    if call.op == NEW_GROUP:
        return []
    if call.op not in MESSAGES:
        return [
            other
            for other in call.ranks
            if other != rank
            and other in states
            and states[other].counts.get(call.group, 0) < call.position
        ]
    if call.peer is None:
        senders = [r for r in call.ranks if r != rank and r in states]
        return senders if all(states[r].current or states[r].has_ended for r in senders) else []
    side = "<" if call.op == "send" else ">"
    other = states.get(call.peer)
    if other is None:
        return []
    reached = other.counts.get(channel(call.group, side, rank, call.tag), 0)
    return [call.peer] if reached < call.position else []


def _cycle(waits: Mapping[int, Wait]) -> tuple[int, ...]:
    """Return a cycle over the stuck ranks, from its smallest rank; empty when there is none."""
    edges = {r: [other for other in waits[r].missing if other in waits] for r in sorted(waits)}
    for part in sorted(map(sorted, circles(edges))):
        return tuple(shortest_through(part[0], edges, part))
    return ()
