"""A schedule as a Perfetto trace (Chrome JSON, gzipped): slices per action, arrows per match.

Process = rank, thread = what the slice occupies. Stuck actions end in an open slice that is named
``never completes``. Without stated times the axis is order, 1 ms a step, and the title says so.
Where a trace was recorded, threads, streams and counters stand below, each rank's in its process.
"""

from __future__ import annotations

import gzip
import io
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from planguard.report.places import shown
from planguard.simulate.entries import COLLECTIVE, COMPUTE, COPY, RECV, SEND, WAIT
from planguard.simulate.inside.device import bandwidths, queues
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.simulate.inside.tracks import Tracks
    from planguard.simulate.schedule import Schedule, Span

_LANES = {COMPUTE: 1, COLLECTIVE: 2, SEND: 3, RECV: 3, WAIT: 4, COPY: 5}
INSIDE = 10
"""Number of the first thread or stream of a trace."""
_NAMES = {1: "compute", 2: "collectives", 3: "point-to-point", 4: "waits", 5: "copies"}


def perfetto(schedule: Schedule) -> bytes:
    """Return a schedule as a gzipped Chrome JSON trace, the same bytes for the same schedule."""
    document = {
        "displayTimeUnit": "ms",
        "otherData": {
            "title": clean(schedule.plan.name or schedule.plan.file or "plan"),
            "basis": schedule.basis,
            "model": schedule.model,
            "notes": "; ".join(schedule.notes),
        },
    }
    encode = msgspec.json.Encoder().encode
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0, compresslevel=6) as file:
        # One after the other: the events of a large plan together would take gigabytes.
        file.write(encode(document)[:-1] + b',"traceEvents":[')
        for number, event in enumerate(_events(schedule)):
            file.write((b"," if number else b"") + encode(event))
        file.write(b"]}")
    return out.getvalue()


def _events(schedule: Schedule) -> Iterator[dict[str, Any]]:
    lanes: dict[int, set[int]] = defaultdict(set)
    for span in schedule.spans:
        lanes[span.rank].add(_LANES[span.kind])
    for rank, own in sorted(lanes.items()):
        alike = len(schedule.stands.get(rank, (rank,))) - 1
        yield _meta(
            "process_name", rank, 0, f"rank {rank}" + (f" (and {alike:,} alike)" if alike else "")
        )
        for lane in sorted(own):
            yield _meta("thread_name", rank, lane, _NAMES[lane])
    arrows: dict[int, list[Span]] = defaultdict(list)
    for span in schedule.spans:
        yield from _slice(schedule, span)
        if span.match is not None and span.kind != "wait":
            arrows[span.match].append(span)
    for match, spans in sorted(arrows.items()):
        yield from _arrows(match, spans)
    for rank, tracks in sorted(schedule.tracks.items()):
        yield from _inside(rank, tracks)


def _inside(rank: int, tracks: Tracks) -> Iterator[dict[str, Any]]:
    """Yield the threads and streams of a rank, and its counters."""
    for number, lane in enumerate(tracks.lanes):
        yield _meta("thread_name", rank, INSIDE + number, lane.name)
    for one in tracks.slices:
        event = {"ph": "X", "name": one.name, "cat": one.kind, "pid": rank}
        times = {"ts": round(one.start, 3), "dur": round(one.end - one.start, 3)}
        args = {} if one.number is None else {"args": {"correlation": one.number}}
        yield {**event, "tid": INSIDE + one.lane, **times, **args}
    for series in (*tracks.series, *bandwidths(tracks), *queues(tracks)):
        for time, value in zip(series.times, series.values, strict=True):
            event = {"ph": "C", "name": series.name, "pid": rank, "ts": round(time, 3)}
            yield {**event, "args": {series.unit or "value": value}}


def _meta(kind: str, rank: int, lane: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": rank, "tid": lane, "args": {"name": name}}


def _slice(schedule: Schedule, span: Span) -> Iterator[dict[str, Any]]:
    view = schedule.plan.action_at(span.rank, span.action, span.member)
    event: dict[str, Any] = {
        "name": clean(view.label or getattr(view.action, "op_name", None) or view.op),
        "cat": span.kind,
        "pid": span.rank,
        "tid": _LANES[span.kind],
        "ts": round(span.start, 3),
        "args": {
            "action": span.action,
            "what": clean(schedule.plan.describe_action(span.rank, span.action, span.member)),
        },
    }
    if view.src is not None:
        event["args"]["source"] = clean(f"{shown(view.src.file)}:{view.src.line}")
    if span.end is not None:
        yield {**event, "ph": "X", "dur": round(span.end - span.start, 3)}
    else:
        yield {**event, "ph": "B", "name": f"never completes: {event['name']}"}


def _arrows(match: int, spans: list[Span]) -> Iterator[dict[str, Any]]:
    """Yield arrows from the last member that arrived (of a pair, the sender) to the others."""
    if len(spans) < 2:
        return
    spans = sorted(spans, key=lambda s: (s.kind != "send", -s.start, s.rank))
    source = spans[0]
    for number, target in enumerate(spans[1:]):
        name = {"name": "match", "cat": "match", "id": match * 65536 + number}
        yield {**name, "ph": "s", "pid": source.rank, "tid": _LANES[source.kind],
               "ts": round(source.start, 3)}  # fmt: skip
        yield {**name, "ph": "f", "bp": "e", "pid": target.rank, "tid": _LANES[target.kind],
               "ts": round(target.start if target.end is None else target.end, 3)}  # fmt: skip
