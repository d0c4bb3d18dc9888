"""The critical path inside a rank: what the end of its trace waited for, back to the begin.

From the last thing that ends, the walk goes back in time to what each one waited for last::

    host    --op A--launch-----------op B--sync......|
    stream               |--kernel--|--kernel--|
                         ^ launch    ^ gap      ^ the sync returns when the kernel has ended

* Work began when the call that launched it had come, the work before it on its stream had ended,
  and what its stream waited for had ended: the latest of these.
* A call that waits for a device (Kineto: ``cuda_sync``, or a copy that blocks) returned when the
  last work that it waits for had ended, if that was inside the call.
* A thread that runs nothing was woken by the thread that ran last.

The segments cover the time from the first event to the last without overlap. HolisticTraceAnalysis
(``critical_path_analysis``) takes the longest path of a graph with the same edges, of which some
count for nothing; here time is never left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from planguard.simulate.inside.tracks import DEVICE, WORK

if TYPE_CHECKING:
    from planguard.simulate.inside.tracks import Tracks

WAITS, COPIES = "Synchronize", "Memcpy"
"""What is in the names of calls that return when a device is done: with everything, or, if memory
is not pinned, with their own copy."""
WHYS = ("host", "kernel", "collective", "copy", "launch", "gap", "return", "idle")
"""What a segment is: the host runs; work of three kinds; from a call until its work begins; from
one work to the next; from the end of work until the call that waits for it returns; nothing."""


class Segment(NamedTuple):
    """A part of the path.

    Attributes:
        start: Begin, microseconds.
        end: End.
        why: One of ``WHYS``.
        place: Place of the slice that it belongs to, or None.
    """

    start: float
    end: float
    why: str
    place: int | None


def critical_path(tracks: Tracks) -> list[Segment]:
    """Return the path, by time; empty where the trace has no work of a device."""
    if not tracks.launches or not tracks.streams():
        return []
    return _Walk(tracks).back()


class _Walk:
    def __init__(self, tracks: Tracks) -> None:
        self.tracks = tracks
        self.slices = tracks.slices
        self.on = tracks.streams()
        self.before: dict[int, int | None] = {}
        for works in self.on.values():
            for at, work in enumerate(works):
                self.before[work] = works[at - 1] if at else None
        self.ends = sorted(
            (self.slices[work].end, work) for works in self.on.values() for work in works
        )
        self.leaves = {lane: _leaves(tracks, own) for lane, own in _threads(tracks).items()}
        self.launched = {
            call: work for work, call in tracks.launches.items() if self.slices[work].kind in WORK
        }
        self.waits, self.awaited = self._sync()
        self.out: list[Segment] = []

    def back(self) -> list[Segment]:
        """Walk from the last end to the first begin."""
        last = max(range(len(self.slices)), key=lambda at: (self.slices[at].end, -at))
        at: tuple[str, int] | None
        one = self.slices[last]
        at = ("work", last) if one.kind in WORK else ("host", one.lane)
        if one.kind == "sync":
            at = ("work", self.ends[-1][1])
        time = self.slices[last].end if at[0] == "host" else self.slices[at[1]].end
        while at is not None:
            time, at = self._work(at[1], time) if at[0] == "work" else self._host(at[1], time)
        return self.out[::-1]

    def _put(self, start: float, end: float, why: str, place: int | None) -> None:
        if end > start:
            self.out.append(Segment(start, end, why, place))

    def _work(self, at: int, time: float) -> tuple[float, tuple[str, int] | None]:
        one = self.slices[at]
        begin = min(one.start, time)
        self._put(begin, time, one.kind if one.kind in WHYS else "copy", at)
        reasons: list[tuple[float, str, int]] = []
        call = self.tracks.launches.get(at)
        if call is not None and self.slices[call].start < begin:
            reasons.append((self.slices[call].start, "launch", call))
        reasons += [
            (min(self.slices[other].end, begin), "gap", other)
            for other in (self.before[at], self.awaited.get(at))
            if other is not None and self.slices[other].start < one.start
        ]
        if not reasons:
            return begin, None
        then, why, other = max(reasons)
        self._put(then, begin, why, at)
        return then, (("host", self.slices[other].lane) if why == "launch" else ("work", other))

    def _host(self, lane: int, time: float) -> tuple[float, tuple[str, int] | None]:
        """Follow a thread back to where it waited for a device, or began."""
        leaves = self.leaves.get(lane, [])  # a thread may have annotations alone
        at = bisect_left(leaves, (time, -1.0, -1)) - 1
        while at >= 0:
            start, end, place = leaves[at]
            if end < time:
                woken = self._woken(lane, time, end)
                if woken is not None:
                    return woken
                self._put(end, time, "idle", None)
                time = end
            work = self._waited_for(place, time)
            if work is not None:
                self._put(self.slices[work].end, time, "return", place)
                return self.slices[work].end, ("work", work)
            self._put(start, time, "host", place)
            time, at = start, at - 1
        return self._woken(lane, time, float("-inf")) or (time, None)

    def _woken(self, lane: int, time: float, ended: float) -> tuple[float, tuple[str, int]] | None:
        """Return the thread that ran last before a time, if it ran later than this one."""
        best = None
        for other, leaves in self.leaves.items():
            if other == lane:
                continue
            at = bisect_left(leaves, (time, -1.0, -1)) - 1
            if at >= 0 and min(leaves[at][1], time) > max(ended, best[0] if best else ended):
                best = min(leaves[at][1], time), other
        if best is None:
            return None
        self._put(best[0], time, "idle", None)
        return best[0], ("host", best[1])

    def _waited_for(self, place: int, time: float) -> int | None:
        """Return the last work that ended inside a call that waits for a device."""
        one = self.slices[place]
        if one.kind != "runtime":
            return None
        if COPIES in one.name:
            own = self.launched.get(place)
            is_awaited = own is not None and one.start < self.slices[own].end <= time
            return own if is_awaited else None
        if not one.name.endswith(WAITS):
            return None
        lane = self.waits.get(one.number)
        at = bisect_right(self.ends, (time, len(self.slices))) - 1
        while at >= 0 and self.ends[at][0] > one.start:
            work = self.ends[at][1]
            if lane is None or self.slices[work].lane == lane:
                return work
            at -= 1
        return None

    def _sync(self) -> tuple[dict[int | None, int], dict[int, int]]:
        """Return what calls wait for one stream, and what works wait for on another one.

        A call that makes a stream wait for an event names the call that recorded it: what was
        called for last before that record, on the stream of the event, ends before what is called
        for next on the stream that waits.
        """
        calls = {one.number: at for at, one in enumerate(self.slices) if one.kind == "runtime"}
        streams = {(one.device, one.stream): at for at, one in enumerate(self.tracks.lanes)}
        called: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for work, call in self.tracks.launches.items():
            if self.slices[work].kind in WORK:
                called[self.slices[work].lane].append((self.slices[call].start, work))
        for own in called.values():
            own.sort()
        waits: dict[int | None, int] = {}
        awaited: dict[int, int] = {}
        for one in self.slices:
            lane = self.tracks.lanes[one.lane]
            if one.kind != "sync":
                continue
            if one.recorded is None:
                if lane.stream is not None:
                    waits[one.number] = one.lane
                continue
            source = called.get(streams.get((lane.device, one.source), -1), [])
            record, wait = calls.get(one.recorded), calls.get(one.number)
            if record is None or wait is None or not source:
                continue
            first = bisect_left(source, (self.slices[record].start, -1)) - 1
            own = called.get(one.lane, [])
            then = bisect_left(own, (self.slices[wait].start, -1))
            if first < 0 or then == len(own) or own is source:
                continue
            work, before = own[then][1], source[first][1]
            known = awaited.get(work)
            if known is None or self.slices[known].end < self.slices[before].end:
                awaited[work] = before
        return waits, awaited


def _threads(tracks: Tracks) -> dict[int, list[int]]:
    out: dict[int, list[int]] = defaultdict(list)
    for at, one in enumerate(tracks.slices):
        if one.kind not in DEVICE and one.kind != "annotation":
            out[one.lane].append(at)
    return out


def _leaves(tracks: Tracks, own: list[int]) -> list[tuple[float, float, int]]:
    """Return who runs when on a thread: the innermost slice at every moment, by time."""
    out: list[tuple[float, float, int]] = []
    around: list[int] = []
    since = 0.0

    def cut(until: float) -> None:
        if around and until > since:
            out.append((since, until, around[-1]))

    for at in own:
        one = tracks.slices[at]
        while around and tracks.slices[around[-1]].end <= one.start:
            cut(tracks.slices[around[-1]].end)
            since = max(since, tracks.slices[around.pop()].end)
        cut(one.start)
        since = max(since, one.start)
        around.append(at)
    while around:
        cut(tracks.slices[around[-1]].end)
        since = max(since, tracks.slices[around.pop()].end)
    return out
