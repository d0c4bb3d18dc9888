"""The inside of a rank as a trace records it: slices on threads and streams, series over time.

A slice of the host nests in the slices of its thread, as a call in its callers; work of a device
stands on its stream. A call that launched work and the work share a number (Kineto:
``correlation``).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

KINDS = (
    "operator", "annotation", "python", "runtime", "kernel", "collective", "copy", "set", "sync",
)  # fmt: skip
"""Kinds of slices: of the host, then of a device; ``sync`` is what a stream waited for."""
DEVICE = frozenset(KINDS[4:])
WORK = frozenset({"kernel", "collective", "copy", "set"})
"""Kinds that occupy a stream."""


class Lane(NamedTuple):
    """A thread of the host, or a stream of a device.

    Attributes:
        name: What the trace calls it.
        device: Number of the device; None for a thread.
        stream: Number of the stream; None for a thread.
    """

    name: str
    device: int | None = None
    stream: int | None = None


class Slice(NamedTuple):
    """Something that ran from one moment to another, microseconds.

    Attributes:
        lane: Place of its lane in the list.
        name: What ran.
        kind: One of ``KINDS``.
        start: Begin.
        end: End.
        number: What a call and the work that it launched share, or None.
        size: Bytes that a copy moved, or None.
        rate: Bytes a second of it as recorded, or None.
        recorded: For a wait for an event: the number of the call that recorded it.
        source: For such a wait: the stream that the event was recorded on, by its number.
    """

    lane: int
    name: str
    kind: str
    start: float
    end: float
    number: int | None = None
    size: int | None = None
    rate: float | None = None
    recorded: int | None = None
    source: int | None = None


class Series(NamedTuple):
    """A value over time: it holds from its moment to the next one.

    Attributes:
        name: What is counted.
        unit: ``B``, ``B/s``, or "" for a number.
        times: Moments, microseconds, in order.
        values: Value from each of them on.
    """

    name: str
    unit: str
    times: tuple[float, ...]
    values: tuple[float, ...]


class Allocation(NamedTuple):
    """Memory that was given out.

    Attributes:
        device: Name of the memory.
        size: Bytes.
        start: When it was given, microseconds; None if before the trace.
        end: When it was taken back; None if not in the trace.
        by: Place of the innermost slice of the host that asked for it, or None.
    """

    device: str
    size: int
    start: float | None
    end: float | None
    by: int | None


@dataclass(frozen=True)
class Tracks:
    """The inside of one rank.

    Attributes:
        lanes: Threads and streams.
        slices: What ran on them, by start, the longer first.
        series: Counters of the trace.
        allocations: Memory that was given out, by start.
    """

    lanes: tuple[Lane, ...] = ()
    slices: tuple[Slice, ...] = ()
    series: tuple[Series, ...] = ()
    allocations: tuple[Allocation, ...] = ()

    def moved(self, by: float) -> Tracks:
        """Return the same with this added to all times."""
        return replace(
            self,
            slices=tuple(s._replace(start=s.start + by, end=s.end + by) for s in self.slices),
            series=tuple(s._replace(times=tuple(t + by for t in s.times)) for s in self.series),
            allocations=tuple(
                a._replace(
                    start=None if a.start is None else a.start + by,
                    end=None if a.end is None else a.end + by,
                )
                for a in self.allocations
            ),
        )

    @cached_property
    def parents(self) -> tuple[int | None, ...]:
        """The slice around each one in its lane, by place; None at the top."""
        open_now: dict[int, list[int]] = defaultdict(list)
        out: list[int | None] = []
        for at, one in enumerate(self.slices):
            around = open_now[one.lane]
            # What ends later than the slice it began in is beside it: clocks have a grain.
            while around and self.slices[around[-1]].end < one.end:
                around.pop()
            out.append(around[-1] if around else None)
            around.append(at)
        return tuple(out)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """How many slices are around each one."""
        out: list[int] = []
        for parent in self.parents:
            out.append(0 if parent is None else out[parent] + 1)
        return tuple(out)

    @cached_property
    def launches(self) -> dict[int, int]:
        """The call that launched each work of a device, by places."""
        calls: dict[int, int] = {}
        for at, one in enumerate(self.slices):
            if one.number is not None and one.kind == "runtime":
                calls.setdefault(one.number, at)
        return {
            at: calls[one.number]
            for at, one in enumerate(self.slices)
            if one.kind in DEVICE and one.number is not None and one.number in calls
        }

    def streams(self) -> dict[int, list[int]]:
        """Return the work on each stream in order of its begin, by lane."""
        out: dict[int, list[int]] = defaultdict(list)
        for at, one in enumerate(self.slices):
            if one.kind in WORK:
                out[one.lane].append(at)
        return dict(out)
