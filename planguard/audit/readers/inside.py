"""The inside of a rank from a Kineto trace: slices of threads and streams, counters, memory.

Kineto writes operators (``cpu_op``), annotations, Python functions, calls of the runtime and of the
driver, works of the device, and waits of streams (``cuda_sync``) as complete events; counters as
events of phase ``C``, counters of CUPTI as numbers of ``cuda_profiler_range``, and what the
allocator gave and took as instants named ``[memory]``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from planguard.audit.readers.copies import CATEGORY, MOST
from planguard.audit.readers.profiled import MEMORY
from planguard.simulate.inside.tracks import Allocation, Lane, Series, Slice, Tracks
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_KINDS = {
    "cpu_op": "operator", "user_annotation": "annotation", "python_function": "python",
    "cuda_runtime": "runtime", "cuda_driver": "runtime", "privateuse1_runtime": "runtime",
    "kernel": "kernel", CATEGORY: "copy", "gpu_memset": "set", "cuda_sync": "sync",
}  # fmt: skip
RANGE = "cuda_profiler_range"
ALL_STREAMS = (1 << 32) - 1
"""The stream of a wait for all streams of a device."""
NAME = 200
SERIES = 200
"""Most counters of a rank."""


def tracks_of(events: Iterable[Any]) -> Tracks:
    """Return the inside of a rank; what has no duration or no known kind is left out."""
    reader = _Reader(list(events))
    return Tracks(reader.lanes(), reader.slices, tuple(reader.series()), reader.allocations())


class _Reader:
    def __init__(self, events: list[Any]) -> None:
        self.events = events
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.named: dict[tuple[Any, Any], str] = {
            (e.pid, e.tid): str(e.args.get("name", ""))
            for e in events
            if e.ph == "M" and e.name == "thread_name"
        }
        self.made: list[Lane] = []
        found = [one for e in events if e.ph == "X" and (one := self._slice(e)) is not None]
        found.sort(key=lambda one: (one.start, -one.end))
        self.slices = tuple(found)

    def lanes(self) -> tuple[Lane, ...]:
        """Return threads and streams, in the order of their first slice in the file."""
        return tuple(self.made)

    def _slice(self, event: Any) -> Slice | None:
        kind = _KINDS.get(event.cat.lower())
        if kind is None or not event.dur >= 0:
            return None
        args = event.args
        if kind == "kernel" and "nccl" in event.name.lower():
            kind = "collective"
        is_device = kind in {"kernel", "collective", "copy", "set", "sync"}
        lane = self._lane(event, is_device=is_device)
        name = clean(event.name[:NAME])
        number = _number(args.get("correlation"))
        return Slice(
            lane, name, kind, event.ts, event.end, number, _number(args.get("bytes")), _rate(args),
            _number(args.get("wait_on_cuda_event_record_corr_id")),
            _number(args.get("wait_on_stream")),
        )  # fmt: skip

    def _lane(self, event: Any, *, is_device: bool) -> int:
        device, stream = _number(event.args.get("device")), _number(event.args.get("stream"))
        if is_device and stream is not None and stream == ALL_STREAMS:
            stream = None  # of a wait for all streams
        key = ("device", device, stream) if is_device else ("host", event.pid, event.tid)
        if key not in self.numbers:
            self.numbers[key] = len(self.made)
            told = self.named.get((event.pid, event.tid), "").strip()
            name = told or f"thread {event.tid}"
            if is_device:
                name = f"device {device}" + ("" if stream is None else f" stream {stream}")
            self.made.append(
                Lane(clean(name[:NAME]), *((device, stream) if is_device else (None, None)))
            )
        return self.numbers[key]

    # --- counters ---

    def series(self) -> Iterator[Series]:
        """Yield memory that was given out and reserved, counters of the trace, those of CUPTI."""
        levels: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        for event in self.events:
            if event.name == MEMORY:
                where = _memory(event.args)
                for field, word in (
                    ("Total Allocated", "allocated"),
                    ("Total Reserved", "reserved"),
                ):
                    value = _number(event.args.get(field))
                    if value is not None:
                        levels[f"{word} on {where}", "B"].append((event.ts, value))
            elif event.ph == "C":
                for name, value in event.args.items():
                    if _is_value(value):
                        title = event.name if len(event.args) == 1 else f"{event.name}: {name}"
                        levels[clean(title[:NAME]), ""].append((event.ts, value))
            elif event.cat == RANGE:
                for name, value in event.args.items():
                    if _is_value(value):
                        own = levels[clean(name[:NAME]), ""]
                        own += [(event.ts, value), (event.end, 0)]
        for (name, unit), points in list(levels.items())[:SERIES]:
            points.sort(key=lambda point: point[0])
            if any(value for _, value in points):
                yield Series(name, unit, *map(tuple, zip(*points, strict=True)))

    # --- allocations ---

    def allocations(self) -> tuple[Allocation, ...]:
        """Return what was given out, each from its giving to its taking back at one address."""
        live: dict[tuple[str, int], tuple[int, float, int | None]] = {}
        out: list[Allocation] = []
        inside = _Inside(self.slices)
        given = [event for event in self.events if event.name == MEMORY]
        for event in sorted(given, key=lambda event: event.ts):
            size, address = event.args.get("Bytes"), _number(event.args.get("Addr"))
            if type(size) is not int or address is None or not 0 < abs(size) < MOST:
                continue
            where = _memory(event.args)
            before = live.pop((where, address), None)
            if before is not None:
                out.append(Allocation(where, before[0], before[1], event.ts, before[2]))
            elif size < 0:
                out.append(Allocation(where, -size, None, event.ts, None))
            if size > 0:
                lane = self.numbers.get(("host", event.pid, event.tid))
                live[where, address] = size, event.ts, inside.at(lane, event.ts)
        out += [Allocation(where, size, start, None, by) for (where, _), (size, start, by)
                in live.items()]  # fmt: skip
        return tuple(sorted(out, key=lambda one: (one.start is not None, one.start or 0.0)))


class _Inside:
    """The innermost slice of a lane at a moment; moments come in order."""

    def __init__(self, slices: tuple[Slice, ...]) -> None:
        self.slices = slices
        self.own: dict[int, list[int]] = defaultdict(list)
        for at, one in enumerate(slices):
            self.own[one.lane].append(at)
        self.starts = {lane: [slices[at].start for at in own] for lane, own in self.own.items()}

    def at(self, lane: int | None, time: float) -> int | None:
        if lane is None or lane not in self.own:
            return None
        place = bisect_right(self.starts[lane], time) - 1
        for at in range(place, max(-1, place - 500), -1):
            found = self.own[lane][at]
            if self.slices[found].end >= time:
                return found
        return None


def _memory(args: dict[str, Any]) -> str:
    kind, number = args.get("Device Type"), args.get("Device Id")
    if kind == 0:
        return "the host"
    return f"device {number}" if type(number) is int and number >= 0 else "a device"


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 63 else None


def _rate(args: dict[str, Any]) -> float | None:
    rate = args.get("memory bandwidth (GB/s)")
    return float(rate) * 1e9 if rate is not None and _is_value(rate) and rate > 0 else None


def _is_value(value: Any) -> bool:
    return type(value) in {int, float} and abs(value) < 1e30
