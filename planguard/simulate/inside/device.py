"""Why the streams of a device are idle, and how calls of the host reach them.

The division of idle time, the delay of launches, the queue and the bandwidth of copies are those of
HolisticTraceAnalysis (``get_idle_time_breakdown``, ``get_cuda_kernel_launch_stats``,
``get_queue_length_time_series``, ``get_memory_bw_time_series``).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from planguard.simulate.inside.tracks import Series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.simulate.inside.tracks import Tracks

LAUNCH_GAP = 30.0
"""Microseconds below which a gap between two kernels is what launching takes (HTA's default)."""
WHYS = ("host", "launch", "other")


class Gap(NamedTuple):
    """A stream between two works.

    Attributes:
        lane: The stream.
        start: End of the work before.
        end: Begin of the work after.
        why: ``host``: the host called for the work after only when the one before had ended;
            ``launch``: shorter than a launch takes; ``other``: it was in the queue and did not
            begin (another stream, or a wait for an event).
    """

    lane: int
    start: float
    end: float
    why: str


class Delay(NamedTuple):
    """A call of the host and the work that it launched.

    Attributes:
        call: Place of the call.
        work: Place of the work.
        time: Microseconds from the end of the call to the begin of the work: negative where the
            call returned later.
    """

    call: int
    work: int
    time: float


def gaps(tracks: Tracks) -> list[Gap]:
    """Return every gap between two works of one stream, by stream and time.

    Works that overlap on a stream have a gap below zero, which counts as it is: the sum is that of
    the trace.
    """
    out = []
    for lane, works in tracks.streams().items():
        for before, after in pairwise(works):
            start, end = tracks.slices[before].end, tracks.slices[after].start
            call = tracks.launches.get(after)
            if call is not None and tracks.slices[call].start > start:
                why = "host"
            else:
                why = "launch" if end - start < LAUNCH_GAP else "other"
            out.append(Gap(lane, start, end, why))
    return out


def delays(tracks: Tracks) -> list[Delay]:
    """Return every launch, in the order of the works."""
    return [
        Delay(call, work, tracks.slices[work].start - tracks.slices[call].end)
        for work, call in sorted(tracks.launches.items())
        if tracks.slices[work].kind != "sync"
    ]


def queues(tracks: Tracks) -> list[Series]:
    """Return how many works were called for and had not begun, of every stream."""
    changes: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for one in delays(tracks):
        lane = tracks.slices[one.work].lane
        changes[lane].append((tracks.slices[one.call].start, 1))
        changes[lane].append((tracks.slices[one.work].start, -1))
    return [
        _series(f"queue of {tracks.lanes[lane].name}", "", own)
        for lane, own in sorted(changes.items())
    ]


def bandwidths(tracks: Tracks) -> list[Series]:
    """Return the bytes a second that copies move together, by kind of copy.

    The rate is the recorded one, from finer times than those of the slices. A copy of less than a
    microsecond lasts one here, because the clock has that grain (HTA).
    """
    changes: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in tracks.slices:
        if one.kind in {"copy", "set"} and one.size:
            lasts = max(one.end - one.start, 1.0)
            rate = one.rate if one.rate is not None else one.size / lasts * 1e6
            kind = one.name.split(" (")[0]
            changes[kind] += [(one.start, rate), (one.start + lasts, -rate)]
    return [_series(f"bandwidth of {kind}", "B/s", own) for kind, own in sorted(changes.items())]


def _series(name: str, unit: str, changes: Iterable[tuple[float, float]]) -> Series:
    """Return the sum of changes over time; what cancels out is zero."""
    times: list[float] = []
    values: list[float] = []
    level = 0.0
    for time, by in sorted(changes):
        level += by
        if abs(level) < 1e-6 * abs(by):
            level = 0.0
        if times and times[-1] == time:
            values[-1] = level
        else:
            times.append(time)
            values.append(level)
    return Series(name, unit, tuple(times), tuple(values))
