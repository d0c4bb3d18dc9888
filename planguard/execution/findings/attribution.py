"""What is stuck by itself, and what only because a mismatch threw its communicator out of step.

The rule is a least fixed point. Where a lane stands at a round or pair behind a mismatched one of
the same communicator or channel, the mismatch is excuse enough. A lane that waits for nothing but
excused lanes is excused too. A cycle excuses nobody, nor does a member that never comes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from planguard.execution.findings.members import describe_match
from planguard.execution.findings.mismatch import home_of
from planguard.execution.findings.stuck import Orphan, StuckState, place_of
from planguard.plan.actions import KIND_MASK, NONE, Kind
from planguard.semantics.model import Family

if TYPE_CHECKING:
    from collections.abc import Collection

    from planguard.execution.running.executor import Execution

ARRIVE, AWAIT = 1, 2
LIMIT = 2_000_000
"""Words of stuck lanes beyond which actions that are in flight are not looked at."""


@dataclass(frozen=True)
class InFlight:
    """An action that a stuck lane issued, that no lane stands at, and that never completes."""

    lane: int
    at: int
    match: int


class Attribution:
    """The stuck lanes of an execution and which of them a mismatch excuses.

    Args:
        execution: A stuck run with ``origins=True`` in which mismatched rounds complete.
        mismatched: Numbers of the matches whose members disagree.
    """

    def __init__(self, execution: Execution, mismatched: Collection[int]) -> None:
        self.execution = execution
        self.state = StuckState(execution)
        self._earliest: dict[object, int] = {}
        for number in mismatched:
            if number < execution.lanes.ext_base:
                home = home_of(execution, number)
                self._earliest[home] = min(number, self._earliest.get(home, number))

    def is_late(self, match: int) -> bool:
        """Whether a mismatch came before on the same communicator or channel."""
        number = describe_match(self.execution, match).number
        if number >= self.execution.lanes.ext_base:
            return False
        return self._earliest.get(home_of(self.execution, number), number) < number

    @cached_property
    def excused(self) -> set[int]:
        """Lanes that stand where they stand because of a mismatch."""
        found = {
            lane
            for lane, match in self.state.match_of.items()
            if not self._in_front(lane, match) and all(map(self.is_late, self._launch(lane)))
        }
        while True:
            more = {
                lane
                for lane, match in self.state.match_of.items()
                if lane not in found and self._lane_depends(lane, match, found)
            }
            if not more:
                return found
            found |= more

    def _in_front(self, lane: int, match: int) -> set[int]:
        """Return lanes of the same rank that hold up its own arrival: it has not started there."""
        rank = self.execution.lanes.lane_rank
        owed = self.state.owed.get(match, ())
        return {other for other, _ in owed if rank[other] == rank[lane] and other != lane}

    def _lane_depends(self, lane: int, match: int, excused: set[int]) -> bool:
        in_front = self._in_front(lane, match)
        if in_front:
            return in_front <= excused
        launch = self._launch(lane)
        return all(
            (len(launch) > 1 and self.is_late(one)) or self._depends(self._owed(one), one, excused)
            for one in launch
        )

    def _launch(self, lane: int) -> list[int]:
        """Return the matches a lane waits for: of a batch or a wait, all that are not complete."""
        lanes, state = self.execution.lanes, self.execution.state
        at = state.pc[lane]
        found = [self.state.match_of[lane]]
        if not self._has_several(lanes.lane_rank[lane], lanes.origin[at]):
            return found
        for later in range(at + 1, lanes.lane_off[lane + 1]):
            if lanes.origin[later] != lanes.origin[at]:
                break
            if lanes.code[later] & ARRIVE:
                return found[:1]  # it has not been launched: what it waits for is in front of it
            match = lanes.code[later] >> 2
            if lanes.code[later] & AWAIT and state.need[match] and match not in found:
                found.append(match)
        return found

    def _has_several(self, rank: int, entry: int) -> bool:
        """Whether an entry may wait for several matches: a batch, or a wait for one or for handles.

        On a device a wait is an edge of a stream, and no one stands at it.
        """
        columns, kinds = self.execution.columns, {Kind.BATCH}
        if self.execution.model.family is Family.HOST:
            kinds |= {Kind.WAIT, Kind.WAIT_MANY}
        return entry != NONE and columns.op[columns.rank_off[rank] + entry] & KIND_MASK in kinds

    def _owed(self, match: int) -> list[tuple[int, int]]:
        return self.state.owed.get(match) or self._coming.get(match, [])

    def _depends(self, owed: Collection[tuple[int, int]], match: int, excused: set[int]) -> bool:
        """Whether a match waits for excused lanes and for nobody else."""
        others = {lane for lane, _ in owed}
        return bool(others) and len(owed) >= self.execution.state.need[match] and others <= excused

    @cached_property
    def own_lanes(self) -> set[int]:
        """Lanes that are stuck whatever became of the mismatched rounds."""
        return set(self.state.match_of) - self.excused

    @cached_property
    def own_matches(self) -> set[int]:
        """Numbers of the matches at which they stand."""
        matches = {self.state.match_of[lane] for lane in self.own_lanes}
        return {describe_match(self.execution, match).number for match in matches}

    @cached_property
    def own_in_flight(self) -> list[InFlight]:
        """Actions in flight on queues that can never drain, for a reason of their own."""
        if self.execution.model.family is not Family.DEVICE:
            return []
        return [
            one
            for one in self._in_flight()
            if not self.is_late(one.match)
            and not self._depends(self._coming.get(one.match, []), one.match, self.excused)
        ]

    def _in_flight(self) -> list[InFlight]:
        lanes, state = self.execution.lanes, self.execution.state
        found = {}
        for lane in self._short_lanes():
            for at in range(lanes.lane_off[lane], state.pc[lane]):
                match = lanes.code[at] >> 2
                if lanes.code[at] & ARRIVE and state.need[match] and lanes.origin[at] != NONE:
                    found[lane, match] = InFlight(lane, at, match)
        standing = set(self.state.match_of.items())
        return [one for key, one in found.items() if key not in standing]

    @cached_property
    def _coming(self) -> dict[int, list[tuple[int, int]]]:
        """Return the lanes that would still arrive at every match, and where."""
        lanes, state = self.execution.lanes, self.execution.state
        found: dict[int, dict[int, int]] = defaultdict(dict)
        for lane in self._short_lanes():
            for at in range(state.pc[lane] + 1, lanes.lane_off[lane + 1]):
                if lanes.code[at] & ARRIVE:
                    found[lanes.code[at] >> 2].setdefault(lane, at)
        return {match: list(places.items()) for match, places in found.items()}

    def _short_lanes(self) -> list[int]:
        lanes = self.execution.lanes
        stuck = sorted(self.state.match_of)
        words = sum(lanes.lane_off[lane + 1] - lanes.lane_off[lane] for lane in stuck)
        return stuck if words <= LIMIT else []

    def orphan(self, one: InFlight) -> Orphan:
        """Return an action in flight as a match that can never complete."""
        lanes = self.execution.lanes
        place = place_of(self.execution, lanes.lane_rank[one.lane], lanes.origin[one.at])
        return Orphan(describe_match(self.execution, one.match), (place,), "queue")
