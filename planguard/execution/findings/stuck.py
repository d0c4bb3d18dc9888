"""A stuck state taken apart: who waits for whom, which cycles, which orphans.

The graph is over lanes (a rank's host program, streams and queues). A lane waits for one match;
the match waits for every arrival it still lacks (an AND-wait). A rank that ended or skipped a call
leaves an orphan, not a cycle: a wait-for cycle is not necessary for a hang.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from planguard.execution.findings.members import MEMBER, NONE, Match, describe_match
from planguard.execution.waits import circles, shortest_through

if TYPE_CHECKING:
    from planguard.execution.running.executor import Execution

WHY = (
    "send-unmatched",
    "recv-unmatched",
    "collective-incomplete",
    "wait-handle",
    "stream-edge",
    "event",
    "queue",
    "dependency",
    "init",
    "stream-edge",
)
GATE = 9
CYCLE_STARTS = 16
_MEMBERS = bytes(op for op in range(256) if op & MEMBER)


@dataclass(frozen=True)
class Place:
    """One entry of a rank's columns and the action it belongs to."""

    rank: int
    entry: int
    action: int


@dataclass(frozen=True)
class Step:
    """One edge of a cycle: the lane at ``at`` waits for ``owed``, which is behind ``behind``."""

    at: Place
    owed: Place
    behind: Place
    match: Match
    why: str


@dataclass(frozen=True)
class Cycle:
    """A wait-for cycle over ranks."""

    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Orphan:
    """A match that can never complete: ``waiting`` stand there, ``missing`` never come."""

    match: Match
    waiting: tuple[Place, ...]
    why: str


class StuckState:
    """The wait-for structure of an execution that did not complete (needs ``origins=True``)."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        blocked = execution.kernels.blockers(execution.lanes, execution.state)
        self.match_of = dict(zip(blocked.lane, blocked.match, strict=True))
        self.owed: dict[int, list[tuple[int, int]]] = {}
        for match, lane, at in zip(
            blocked.owed_match, blocked.owed_lane, blocked.owed_at, strict=True
        ):
            known = self.owed.setdefault(match, [])
            if not any(other == lane for other, _ in known):
                known.append((lane, at))

    def place(self, lane: int, at: int | None = None) -> Place | None:
        """Return the action behind an instruction; None for synthetic ones."""
        lanes = self.execution.lanes
        entry = lanes.origin[self.execution.state.pc[lane] if at is None else at]
        if entry == NONE:
            return None
        return place_of(self.execution, lanes.lane_rank[lane], entry)

    def why(self, lane: int) -> str:
        """Return why the lane is stuck, as a word of the result schema."""
        return WHY[self.execution.lanes.why[self.execution.state.pc[lane]]]

    @cached_property
    def edges(self) -> dict[int, list[int]]:
        """Lanes each stuck lane waits for; itself where a message to oneself stands behind."""
        return {
            lane: [other for other, _ in self.owed.get(match, ())]
            for lane, match in self.match_of.items()
        }

    def cycles(self) -> list[Cycle]:
        """Return one shortest cycle of every strongly connected component, smallest rank first."""
        found = []
        for component in circles(self.edges):
            path = self._shortest(component)
            if path:
                cycle = self._cycle(path)
                if cycle.steps:
                    found.append(cycle)
        return sorted(found, key=lambda cycle: min(step.at.rank for step in cycle.steps))

    def _shortest(self, component: list[int]) -> list[int]:
        inside = set(component)
        best: list[int] = []
        for start in sorted(component)[:CYCLE_STARTS]:
            path = shortest_through(start, self.edges, inside)
            if path and (not best or len(path) < len(best)):
                best = path
            if len(best) == 2:
                break
        return best

    def _cycle(self, path: list[int]) -> Cycle:
        steps = []
        for place, lane in enumerate(path):
            after = path[(place + 1) % len(path)]
            step = self._step(lane, after)
            if step is not None:
                steps.append(step)
        return Cycle(tuple(_across_ranks(steps)))

    def _step(self, lane: int, after: int) -> Step | None:
        match = self.match_of[lane]
        at = next(at for other, at in self.owed[match] if other == after)
        here, owed, behind = self.place(lane), self.place(after, at), self.place(after)
        fallback = here or behind or owed
        if fallback is None:
            return None
        return Step(
            here or fallback,
            owed or behind or fallback,
            behind or owed or fallback,
            describe_match(self.execution, match),
            self.why(lane),
        )

    def orphans(self) -> list[Orphan]:
        """Return the matches that lack an arrival nobody owes, with who waits there.

        The edges of one rooted collective are one orphan.
        """
        waiting: dict[int, list[int]] = {}
        for lane, match in self.match_of.items():
            waiting.setdefault(match, []).append(lane)
        found: dict[int, Orphan] = {}
        for match, lanes in sorted(waiting.items()):
            if len(self.owed.get(match, ())) >= self.execution.state.need[match]:
                continue
            places = tuple(place for lane in lanes if (place := self.place(lane)) is not None)
            if not places:
                continue
            described = describe_match(self.execution, match)
            known = found.get(described.number)
            before = known.waiting if known else ()
            found[described.number] = Orphan(
                described, before + tuple(p for p in places if p not in before), self.why(lanes[0])
            )
        return list(found.values())


def _across_ranks(steps: list[Step]) -> list[Step]:
    """Join steps between lanes of one rank with the step that follows them."""
    if len({step.at.rank for step in steps} | {step.owed.rank for step in steps}) < 2:
        return steps
    while steps and steps[-1].at.rank == steps[-1].owed.rank:
        steps = [steps[-1], *steps[:-1]]
    joined: list[Step] = []
    start: Step | None = None
    for step in steps:
        if step.at.rank == step.owed.rank:
            start = start or step
            continue
        first = start or step
        joined.append(Step(first.at, step.owed, step.behind, step.match, step.why))
        start = None
    return joined


def place_of(execution: Execution, rank: int, entry: int) -> Place:
    """Return entry and action index of one entry; batch members belong to their batch."""
    columns = execution.columns
    start = columns.rank_off[rank]
    head = bytes(columns.op[start : start + entry + 1])
    return Place(rank, entry, len(head.translate(None, _MEMBERS)) - 1)


def stuck_by_rank(execution: Execution) -> dict[int, Place]:
    """Return the earliest action at which each stuck rank stands."""
    if execution.completes:
        return {}
    state = StuckState(execution)
    first: dict[int, Place] = {}
    soft, pc = execution.lanes.lane_soft, execution.state.pc
    for lane in state.match_of:
        place = state.place(lane)
        if place is None or (len(soft) and pc[lane] >= soft[lane]):
            continue
        known = first.get(place.rank)
        if known is None or place.entry < known.entry:
            first[place.rank] = place
    return first
