"""When recorded calls began and ended: what Flight Recorder dumps and Kineto traces say of time.

Readers of an audit keep the order of calls. A picture also wants their times, the computations
between them, and the steps of training that a profiler marks.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec import field as named

from planguard.audit.readers.copies import CATEGORY, Copied, copied
from planguard.audit.readers.inside import tracks_of
from planguard.audit.readers.names import operation
from planguard.audit.readers.profiled import Memory, flops_of
from planguard.audit.readers.safe import decode_json, load_pickle
from planguard.simulate.inside.tracks import Tracks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_COMPUTE = 20_000
"""Most computations of one rank that are drawn; the longest are kept."""
PARAMS = "record_param_comms"
BACKWARD = "autograd::engine::evaluate_function: "
STEP = "ProfilerStep#"
RECORD = "Record function id"


@dataclass(frozen=True)
class Work:
    """A computation: what, in which phase, from when to when in microseconds.

    Attributes:
        flops: What it computed, 0 where that is not known.
        bytes: The most memory that was given out while it ran, or None.
        record: The number that an ExecutionTrace gives it, too, or None.
    """

    name: str
    phase: str
    start: float
    end: float
    flops: float = 0.0
    bytes: int | None = None
    record: int | None = None


@dataclass
class Times:
    """What one file says of time, microseconds of the rank's clock.

    Attributes:
        calls: Begin and end of calls by number of the record, or nanosecond of the begin.
        records: Numbers that an ExecutionTrace gives calls, too, by the same keys.
        nested: By such a number of an operator: that of the innermost call or computation that it
            is or runs in, and how deep in it.
        work: Computations in order of their begin.
        copies: Copies between memories in order of their begin.
        steps: Steps of training by name.
        tracks: Threads, streams and counters.
        notes: What the times mean.
        dropped: Computations left out.
    """

    calls: dict[int, tuple[float, float]] = field(default_factory=dict)
    records: dict[int, int] = field(default_factory=dict)
    nested: dict[int, tuple[int, int]] = field(default_factory=dict)
    work: list[Work] = field(default_factory=list)
    copies: list[Copied] = field(default_factory=list)
    steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    tracks: Tracks = field(default_factory=Tracks)
    notes: tuple[str, ...] = ()
    dropped: int = 0


def times_of(kind: str, data: bytes, file: str) -> Times:
    """Return the times of a file that was read before; empty where its kind has none.

    Raises:
        PlanError: It cannot be decoded.
    """
    if kind == "flight-recorder":
        return _flight_recorder(data, file)
    return _kineto(data, file) if kind == "kineto" else Times()


# --- Flight Recorder -----------------------------------------------------------------------------


def _flight_recorder(data: bytes, file: str) -> Times:
    """Return times by number of the record; a call whose end is not told ends where it begins."""
    is_json = data.lstrip()[:1] == b"{"
    dump: Any = decode_json(data, dict[str, Any], file) if is_json else load_pickle(data, file)
    times, open_ends = Times(), 0
    for entry in dump.get("entries", []):
        number, created = entry.get("record_id"), entry.get("time_created_ns")
        if type(number) is not int or type(created) is not int:
            continue
        end = _completed(entry)
        open_ends += end is None
        times.calls[number] = created / 1e3, (created if end is None else end) / 1e3
    note = "times are when the recorder saw a call issued and completed"
    if open_ends == len(times.calls):
        note = "times are when a call was issued; the recorder does not say when it ended"
    times.notes = (note,)
    return times


def _completed(entry: dict[str, Any]) -> float | None:
    created, seen = entry["time_created_ns"], entry.get("time_discovered_completed_ns")
    if type(seen) is int and seen >= created:
        return float(seen)
    started, lasted = entry.get("time_discovered_started_ns"), entry.get("duration_ms")
    if isinstance(lasted, int | float) and not isinstance(lasted, bool) and 0 <= lasted < 1e12:
        begin = started if type(started) is int and started >= created else created
        return float(begin + lasted * 1e6)
    return None


# --- Kineto --------------------------------------------------------------------------------------


class _Event(Struct, gc=False):
    name: str = ""
    ph: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    pid: int | str = 0
    tid: int | str = 0
    args: dict[str, Any] = named(default_factory=dict)

    @property
    def end(self) -> float:
        return self.ts + self.dur

    @property
    def record(self) -> int | None:
        number = self.args.get(RECORD)
        return number if type(number) is int else None


class _Trace(Struct, gc=False):
    events: list[_Event] = named(name="traceEvents", default_factory=list)


def _kineto(data: bytes, file: str) -> Times:
    """Return times by nanosecond of the call's begin, as the reader numbers calls.

    A call of gloo runs in a thread that the trace shows by itself, a call of NCCL is a kernel; the
    span is from the call (gloo) or the begin of the kernel (NCCL) to the end of either.
    """
    every = decode_json(data, _Trace, file).events
    memory = Memory(every)
    events = [e for e in every if e.ph == "X"]
    events.sort(key=lambda event: (event.ts, -event.dur))
    kernels: dict[Any, list[_Event]] = defaultdict(list)
    for event in events:
        if event.cat == "kernel":
            kernels[event.args.get("External id")].append(event)
    way = way_of(events)
    calls = [event for event in events if is_call(event.name, event.cat, event.args, way)]
    times = Times(notes=(_meaning(on_device=bool(kernels)),))
    ends = _gloo_ends(events, calls)
    for event in calls:
        own = kernels.get(event.args.get("External id"), ()) if kernels else ()
        own = [event] if way == KERNELS else own
        begin = min((k.ts for k in own), default=event.ts)
        end = max((k.end for k in own), default=ends.get(id(event), event.end))
        times.calls[int(event.ts * 1000)] = begin, max(begin, end)
        if event.record is not None:
            times.records[int(event.ts * 1000)] = event.record
    _work(events, times, memory, on_device=bool(kernels))
    times.nested = _nested(events, {id(event) for event in calls})
    times.copies = [
        one
        for event in events
        if event.cat == CATEGORY
        and (one := copied(event.name, event.args, event.ts, event.end)) is not None
    ]
    times.tracks = tracks_of(every)
    for event in events:
        if event.name.startswith(STEP) and event.cat != "gpu_user_annotation":
            times.steps[event.name] = event.ts, event.end
    return times


PARAMS_OF_CALLS, OPERATORS, KERNELS = PARAMS, "c10d::", "Collective name"
"""The three ways in which a trace tells of calls, the fullest first."""


def way_of(events: Iterable[Any]) -> str:
    """Return how a trace tells of calls; kernels of NCCL carry their own description."""
    found = OPERATORS
    for event in events:
        if event.name == PARAMS:
            return PARAMS_OF_CALLS
        if event.name.startswith(OPERATORS):
            return _params_among(events)
        if event.cat == "kernel" and event.args and KERNELS in event.args:
            found = KERNELS
    return found


def _params_among(events: Iterable[Any]) -> str:
    return PARAMS_OF_CALLS if any(event.name == PARAMS for event in events) else OPERATORS


def is_call(name: str, category: str, args: Any, way: str) -> bool:
    """Tell whether an event is a call, in a trace that tells of them in this way."""
    if way == KERNELS:
        return category == "kernel" and bool(args) and KERNELS in args
    return name == PARAMS if way == PARAMS_OF_CALLS else name.startswith(OPERATORS)


def _meaning(*, on_device: bool) -> str:
    if on_device:
        return "times are those of kernels; of calls without a kernel, the host's"
    return "times are the host's: operators of the profiler, collectives until gloo had run them"


def _gloo_ends(events: list[_Event], calls: list[_Event]) -> dict[int, float]:
    """Return the end of every call that gloo ran: the n-th run of an operation is its n-th call."""
    runs: dict[str, list[_Event]] = defaultdict(list)
    issued: dict[str, list[_Event]] = defaultdict(list)
    for event in events:
        if event.name.startswith("gloo:"):
            runs[operation(event.name.removeprefix("gloo:"))].append(event)
    for event in calls:
        issued[operation(event.name.removeprefix("c10d::"))].append(event)
    return {
        id(call): max(call.end, run.end)
        for op, own in runs.items()
        if len(own) == len(issued[op])
        for call, run in zip(issued[op], own, strict=True)
    }


def _work(events: list[_Event], times: Times, memory: Memory, *, on_device: bool) -> None:
    """Take the computations: kernels, or operators that stand in no other operator."""
    optimizer = [(e.ts, e.end) for e in events if e.name.startswith("Optimizer.step")]
    flops = _flops(events, on_device=on_device)
    found = []
    for event in _kernels(events) if on_device else _outermost(events):
        phase, name = "", event.name[:200]
        if not on_device:
            phase = "backward" if event.name.startswith(BACKWARD) else "forward"
            if any(a <= event.ts <= b for a, b in optimizer):
                phase = "optimizer"
            name = event.name.removeprefix(BACKWARD)[:200]
        held = memory.most(event.ts, event.end)
        count = flops.get(id(event), 0.0)
        found.append(Work(name, phase, event.ts, event.end, count, held, event.record))
    if len(found) > MOST_COMPUTE:
        times.dropped = len(found) - MOST_COMPUTE
        shortest = sorted(found, key=lambda work: work.start - work.end)[:MOST_COMPUTE]
        found = sorted(shortest, key=lambda work: work.start)
    times.work = found


def _kernels(events: list[_Event]) -> Iterator[_Event]:
    return (e for e in events if e.cat == "kernel" and "nccl" not in e.name.lower())


def _outermost(events: list[_Event]) -> Iterator[_Event]:
    inside: dict[tuple[Any, Any], float] = {}
    for event in events:
        lane = (event.pid, event.tid)
        if event.cat == "cpu_op" and event.ts >= inside.get(lane, 0.0):
            inside[lane] = event.end
            if not event.name.startswith(("c10d::", "gloo:", PARAMS)):
                yield event


def _nested(events: list[_Event], calls: set[int]) -> dict[int, tuple[int, int]]:
    """Return what ``Times.nested`` says, from who runs inside whom in a thread."""
    around: dict[tuple[Any, Any], list[tuple[float, int, int]]] = defaultdict(list)
    found: dict[int, tuple[int, int]] = {}
    for event in events:
        if event.cat != "cpu_op" or event.record is None:
            continue
        lane = around[event.pid, event.tid]
        while lane and event.ts >= lane[-1][0]:
            lane.pop()
        is_drawn = not lane or id(event) in calls
        owner, deep = (event.record, 0) if is_drawn else (lane[-1][1], lane[-1][2] + 1)
        lane.append((event.end, owner, deep))
        found[event.record] = owner, deep
    return found


def _flops(events: list[_Event], *, on_device: bool) -> dict[int, float]:
    """Return FLOPs by identity of the event that is drawn: the operator, or its longest kernel."""
    longest: dict[Any, _Event] = {}
    for kernel in _kernels(events) if on_device else ():
        own = kernel.args.get("External id")
        if own not in longest or kernel.dur > longest[own].dur:
            longest[own] = kernel
    outer: dict[tuple[Any, Any], _Event] = {}
    counted: dict[tuple[Any, Any], tuple[_Event, float]] = {}
    best: dict[int, tuple[_Event, float]] = {}
    found: dict[int, float] = defaultdict(float)
    for event in (e for e in events if e.cat == "cpu_op"):
        lane = (event.pid, event.tid)
        if lane not in outer or event.ts >= outer[lane].end:
            outer[lane] = event
        if lane not in counted or event.ts >= counted[lane][0].end:
            number = flops_of(event.name, event.args)
            if not number:
                continue
            counted[lane] = event, number  # what stands in it is part of it
            if not on_device:
                found[id(outer[lane])] += number
        drawn = longest.get(event.args.get("External id"))
        if drawn is not None:
            owner, number = counted[lane]
            if id(owner) not in best or drawn.dur > best[id(owner)][0].dur:
                best[id(owner)] = drawn, number
    for kernel, number in best.values():
        found[id(kernel)] += number
    return found
