"""What a process that exits takes along (``withdraw.cpp``)."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.kernels.twin_rules import ARRIVE, AWAIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.kernels.twin_columns import Lanes


@dataclass(slots=True)
class Leaving:
    """A rank that leaves.

    Attributes:
        lane: Lane of its program.
        at: Instruction before which the program ends.
        arrivals: Ranges of instructions that arrived for actions nobody waited for.
    """

    lane: int
    at: int
    arrivals: list[tuple[int, int]] = field(default_factory=list)


class Withdrawal:
    """Lets the partners of ranks that leave wait for ever where some execution makes them.

    A partner that has not completed its side by then waits for ever. It has in every execution iff
    its await is in the causal past of the exit. Matches are AND-waits and lanes are sequences, so
    that past is the closure of "to be here, a lane must have passed every await before, and so
    every arrival that those need".

    Args:
        lanes: The lanes of all ranks; rewritten by ``apply``.
        dead: Gives the match of a rank that never completes.
    """

    def __init__(self, lanes: Lanes, dead: Callable[[int], int]) -> None:
        self._lanes, self._dead = lanes, dead
        self._words: dict[int, list[tuple[int, int]]] = {}
        for lane in range(len(lanes.lane_rank)):
            for at in range(lanes.lane_off[lane], lanes.lane_off[lane + 1]):
                self._words.setdefault(lanes.code[at] >> 2, []).append((lane, at))
        self._kills: dict[int, int] = {}

    def apply(self, leaving: list[Leaving]) -> None:
        """Rewrite the awaits that some execution never completes."""
        for each in leaving:
            self._collect(each)
        if self._kills:
            self._rewrite()

    def _past(self, leaving: Leaving) -> list[int]:
        """Return, per lane, the end of what it has passed whenever the rank exits."""
        code, passed = self._lanes.code, list(self._lanes.lane_off[:-1])
        todo = [(leaving.lane, leaving.at)]
        while todo:
            lane, end = todo.pop()
            begin, passed[lane] = passed[lane], max(passed[lane], end)
            for word in code[begin:end]:
                if word & AWAIT:
                    # A lane arrives before it waits: it has passed only what stands before.
                    todo += [(by, at) for by, at in self._words[word >> 2] if code[at] & ARRIVE]
        return passed

    def _matches(self, leaving: Leaving) -> list[int]:
        """Return where the actions of a rank that leaves arrive.

        One that forwards by itself arrives on its own lane, behind the token in its first word.
        """
        lanes = self._lanes
        places = [at for begin, end in leaving.arrivals for at in range(begin, end)]
        found = [lanes.code[at] >> 2 for at in places if not lanes.code[at] & AWAIT]
        tokens, rank = set(found), lanes.lane_rank[leaving.lane]
        for lane in range(leaving.lane + 1, len(lanes.lane_rank)):
            words = lanes.code[lanes.lane_off[lane] : lanes.lane_off[lane + 1]]
            if lanes.lane_rank[lane] == rank and words and words[0] >> 2 in tokens:
                found += [word >> 2 for word in words if word & ARRIVE]
        return found

    def _collect(self, leaving: Leaving) -> None:
        lanes, passed = self._lanes, self._past(leaving)
        rank = lanes.lane_rank[leaving.lane]
        for match in self._matches(leaving):
            for lane, at in self._words[match]:
                waits = lanes.code[at] & AWAIT and lanes.lane_rank[lane] != rank
                if waits and at >= passed[lane]:
                    self._kills.setdefault(at, self._dead(rank))

    def _rewrite(self) -> None:
        """Replace awaits; one with an arrival becomes two words: it still arrives for others."""
        lanes, inserted = self._lanes, []
        words: list[tuple[int, int]] = []
        for at, word in enumerate(lanes.code):
            dead = self._kills.get(at)
            if dead is None:
                words.append((at, word))
                continue
            if word & ARRIVE:
                inserted.append(at)
                words.append((at, word & ~AWAIT))
            words.append((at, dead << 2 | AWAIT))
        lanes.code = array("I", (word for _, word in words))
        if lanes.origin:
            lanes.origin = array("I", (lanes.origin[at] for at, _ in words))
            lanes.why = array("B", (lanes.why[at] for at, _ in words))
        for places in (lanes.lane_off, lanes.lane_soft):
            for index, place in enumerate(places):
                places[index] = place + bisect_left(inserted, place)
