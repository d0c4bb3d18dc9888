"""The critical path of a run across its ranks: what its end waited for, back to its begin.

From the span that ends last, the walk goes to what it waited for last. A communication began when
its last member was there: the walk goes to that rank. Everything else began when something ended on
its own rank: the walk goes to what ended last there::

    rank 0   |---F---|send          |---B---|
    rank 1           |recv|---F+B---|send           the path: F, send, F+B, send, B

The pieces cover the time from the begin to the end without overlap, so that a run becomes shorter
only if one of them does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from planguard.simulate.schedule import Schedule, Span

IDLE = "idle"
GRAIN = 1e-9
"""Share of the run below which two moments are one: sums of times are rounded."""


class Piece(NamedTuple):
    """A part of the path.

    Attributes:
        start: Begin, microseconds.
        end: End.
        rank: Global rank.
        kind: Kind of the span, or ``idle``: nothing that is known ran on the rank.
        span: The span; of ``idle`` the one that came after.
    """

    start: float
    end: float
    rank: int
    kind: str
    span: Span


def critical(run: Schedule) -> list[Piece]:
    """Return the critical path of a run, by time; empty where it does not end, or has no times.

    Clocks that were not aligned have no moment in common; their run has no path either.
    """
    if not run.complete or not run.makespan or not run.is_timed:
        return []
    return _Walk(run).back()


class _Walk:
    def __init__(self, run: Schedule) -> None:
        self.grain = run.makespan * GRAIN
        # What waits for a handle ends with the communication, which is there itself.
        self.spans = [s for s in run.spans if s.kind != "wait" and s.end is not None]
        self.by_end: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
        self.last: dict[int, int] = {}
        for at, span in enumerate(self.spans):
            self.by_end[span.rank].append((span.end or 0.0, span.start, at))
            if span.match is not None:
                known = self.last.get(span.match)
                if known is None or self.spans[known].start < span.start:
                    self.last[span.match] = at
        for own in self.by_end.values():
            own.sort()

    def back(self) -> list[Piece]:
        """Walk from the last end to the first begin."""
        if not self.spans:
            return []
        out: list[Piece] = []
        last = max(
            range(len(self.spans)), key=lambda n: (self.spans[n].end or 0.0, -self.spans[n].rank)
        )
        at: int | None = last
        time = self.spans[last].end or 0.0
        seen: set[int] = set()
        while at is not None and at not in seen:
            seen.add(at)
            span = self.spans[at]
            begin = min(time, span.start if span.kind in {"compute", "copy"} else span.ready)
            if begin < time:
                out.append(Piece(begin, time, span.rank, span.kind, span))
            time = begin
            if span.match is not None and span.ready > span.start + self.grain:
                late = self.last[span.match]
                if late != at and late not in seen:
                    seen.add(late)
                    at = late
                    time = min(time, self.spans[late].start)
            own, at = self.spans[at], self._ended(at, time, seen)
            if at is None:
                break
            end = self.spans[at].end or 0.0
            if time - end > self.grain:
                out.append(Piece(end, time, own.rank, IDLE, own))
            time = min(time, end)
        return out[::-1]

    def _ended(self, at: int, time: float, seen: set[int]) -> int | None:
        """Return what ended last on a rank before a moment; of several the longest."""
        own = self.by_end[self.spans[at].rank]
        place = bisect_right(own, (time + self.grain, float("inf"), 0)) - 1
        best: int | None = None
        while place >= 0:
            end, _, found = own[place]
            if best is not None and end < (self.spans[best].end or 0.0) - self.grain:
                break
            is_new = found != at and found not in seen and self.spans[found].start < time
            if is_new and (best is None or self.spans[found].start < self.spans[best].start):
                best = found
            place -= 1
        return best
