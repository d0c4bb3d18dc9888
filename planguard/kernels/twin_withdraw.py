"""What a process that exits takes along (``withdraw.cpp``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.kernels.twin_rules import ARRIVE, AWAIT

if TYPE_CHECKING:
    from planguard.kernels.twin_columns import Lanes


@dataclass(slots=True)
class Leaving:
    """A rank that leaves.

    Attributes:
        lane: Lane of its program.
        at: Instruction before which the program ends.
        arrivals: Ranges of instructions that nobody waited for.
    """

    lane: int
    at: int
    arrivals: list[tuple[int, int]] = field(default_factory=list)


class Withdrawal:
    """Finds the actions that some execution loses.

    An action is lost unless all its partners arrive in the causal past of the exit. Matches are
    AND-waits and lanes are sequences, so that past is the closure of "to be here, a lane must have
    passed every wait before, and so every arrival that those waits need".
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._arrivals: dict[int, list[tuple[int, int]]] = {}
        for lane in range(len(lanes.lane_rank)):
            for at in range(lanes.lane_off[lane], lanes.lane_off[lane + 1]):
                if lanes.code[at] & ARRIVE:
                    self._arrivals.setdefault(lanes.code[at] >> 2, []).append((lane, at))

    def lost(self, leaving: Leaving) -> list[int]:
        """Return the instructions of a rank that leaves which some execution loses."""
        code = self._lanes.code
        self._find_past(leaving)
        return [
            at
            for begin, end in leaving.arrivals
            for at in range(begin, end)
            if not code[at] & AWAIT and not self._is_over(leaving, code[at] >> 2)
        ]

    def _find_past(self, leaving: Leaving) -> None:
        offsets = self._lanes.lane_off
        self._passed = list(offsets[:-1])
        self._arrived = list(offsets[:-1])
        todo = [(leaving.lane, leaving.at)]
        while todo:
            lane, end = todo.pop()
            begin = self._passed[lane]
            self._passed[lane] = max(begin, end)
            self._arrived[lane] = max(self._arrived[lane], end)
            for word in self._lanes.code[begin:end]:
                if word & AWAIT:
                    for other, at in self._arrivals.get(word >> 2, ()):
                        # A lane arrives before it waits: it has passed only what stands before.
                        self._arrived[other] = max(self._arrived[other], at + 1)
                        todo.append((other, at))

    def _is_met(self, match: int) -> bool:
        arrivals = self._arrivals.get(match, ())
        found = sum(at < self._arrived[lane] for lane, at in arrivals)
        return found >= self._lanes.need[match]

    def _is_over(self, leaving: Leaving, match: int) -> bool:
        """Tell whether an action is over; one that forwards by itself is when its lane is."""
        lanes = self._lanes
        rank = lanes.lane_rank[leaving.lane]
        if match >= lanes.ext_base:
            for lane in range(leaving.lane + 1, len(lanes.lane_rank)):
                begin, end = lanes.lane_off[lane], lanes.lane_off[lane + 1]
                if lanes.lane_rank[lane] == rank and begin < end:
                    first, *rest, _ = lanes.code[begin:end]
                    if first == match << 2 | AWAIT:
                        return all(self._is_met(word >> 2) for word in rest)
        return self._is_met(match)
