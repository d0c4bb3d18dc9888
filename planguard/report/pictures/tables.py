"""A schedule as an SQLite file: what the timeline shows as tables, for questions in SQL.

========== =====================================================================================
table      one row for each
========== =====================================================================================
run        name and value: title, basis, model, makespan, notes
span       action of a rank in time: ``us`` from the start of the run; ``end`` NULL: never completes
slice      what ran on a thread or a stream, as a trace recorded it; ``parent`` is the slice around
           it, ``launched_by`` the call that launched it, both by ``id``
counter    value of a counter from a moment on
allocation memory that was given out; ``slice`` is where
========== =====================================================================================
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from planguard.report.places import shown
from planguard.simulate.inside.device import bandwidths, queues
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.simulate.inside.tracks import Tracks
    from planguard.simulate.schedule import Schedule

_SCHEMA = """
CREATE TABLE run (name TEXT, value);
CREATE TABLE span (rank INTEGER, action INTEGER, member INTEGER, kind TEXT, op TEXT, name TEXT,
  label TEXT, grp TEXT, source TEXT, start REAL, ready REAL, end REAL, match INTEGER);
CREATE TABLE slice (id INTEGER PRIMARY KEY, rank INTEGER, lane TEXT, kind TEXT, name TEXT,
  start REAL, end REAL, depth INTEGER, parent INTEGER, launched_by INTEGER, bytes INTEGER);
CREATE TABLE counter (rank INTEGER, name TEXT, unit TEXT, time REAL, value REAL);
CREATE TABLE allocation (rank INTEGER, memory TEXT, bytes INTEGER, start REAL, end REAL,
  slice INTEGER);
"""


def sqlite(schedule: Schedule) -> bytes:
    """Return a schedule as an SQLite file, the same bytes for the same schedule."""
    base = sqlite3.connect(":memory:")
    try:
        base.executescript(_SCHEMA)
        told = {
            "title": clean(schedule.plan.name or schedule.plan.file or "plan"),
            "basis": schedule.basis,
            "model": schedule.model,
            "makespan_us": schedule.makespan,
            "notes": "; ".join(schedule.notes),
        }
        base.executemany("INSERT INTO run VALUES (?, ?)", told.items())
        _fill(base, "span", 13, _spans(schedule))
        first = 0
        for rank, tracks in sorted(schedule.tracks.items()):
            _fill(base, "slice", 11, _slices(rank, tracks, first))
            _fill(base, "counter", 5, _counters(rank, tracks))
            _fill(base, "allocation", 6, _allocations(rank, tracks, first))
            first += len(tracks.slices)
        base.commit()
        return base.serialize()
    finally:
        base.close()


def _fill(
    base: sqlite3.Connection, table: str, width: int, rows: Iterator[tuple[Any, ...]]
) -> None:
    base.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * width)})", rows)  # noqa: S608 - a name of ours


def _spans(schedule: Schedule) -> Iterator[tuple[Any, ...]]:
    plan = schedule.plan
    for one in schedule.spans:
        view = plan.action_at(one.rank, one.action, one.member)
        group = getattr(view.action, "group", None)
        name = getattr(view.action, "op_name", None)
        source = None if view.src is None else clean(f"{shown(view.src.file)}:{view.src.line}")
        yield (
            one.rank, one.action, one.member, one.kind, view.op,
            clean(name) if isinstance(name, str) else view.op, clean(view.label or ""),
            clean(plan.group_name(group, one.rank)) if isinstance(group, str) else None,
            source, one.start, one.ready, one.end, one.match,
        )  # fmt: skip


def _slices(rank: int, tracks: Tracks, first: int) -> Iterator[tuple[Any, ...]]:
    def numbered(at: int | None) -> int | None:
        return None if at is None else first + at

    for at, one in enumerate(tracks.slices):
        yield (
            first + at, rank, tracks.lanes[one.lane].name, one.kind, one.name, one.start, one.end,
            tracks.depths[at], numbered(tracks.parents[at]), numbered(tracks.launches.get(at)),
            one.size,
        )  # fmt: skip


def _counters(rank: int, tracks: Tracks) -> Iterator[tuple[Any, ...]]:
    for series in (*tracks.series, *bandwidths(tracks), *queues(tracks)):
        for time, value in zip(series.times, series.values, strict=True):
            yield rank, series.name, series.unit, time, value


def _allocations(rank: int, tracks: Tracks, first: int) -> Iterator[tuple[Any, ...]]:
    for one in tracks.allocations:
        at = None if one.by is None else first + one.by
        yield rank, one.device, one.size, one.start, one.end, at
