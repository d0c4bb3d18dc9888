"""When NCCL was called and when it came back, from the logs of the interposer and the profiler.

The interposer sees the call on the host, which returns as soon as the operation is enqueued; the
profiler plugin sees when its kernels ended.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.capture.nccl.preload import read_logs
from planguard.capture.nccl.preload_log import read_log
from planguard.plan.format import read
from planguard.recording import Progress
from planguard.recording.promote import document_of, places_of
from planguard.simulate.measured import Mark, measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.capture.nccl.preload_log import Log
    from planguard.plan.plan import Plan
    from planguard.recording import RankRecord
    from planguard.simulate.schedule import Schedule

ENQUEUED = "times are the host's inside NCCL's calls, which return before the operation is done"
KERNELS = "times are those of NCCL's profiler, from a call until its kernels ended"
COMM_INFO = 50


def schedule_of_logs(paths: list[str | Path], plan: Plan | None = None) -> Schedule:
    """Return the measured times of the logs of one run.

    Args:
        paths: Files and folders.
        plan: The plan of the recording; made from it if None.

    Raises:
        UsageError: There is no log.
        PlanError: A file is not a log, or the recording has gaps and makes no plan.
    """
    recording = read_logs(paths)
    if plan is None:
        name = ", ".join(Path(path).name for path in paths)
        recording.to_plan()  # refuses gaps
        plan = read({**document_of(recording), "name": name, "model": "nccl"})
    marks: list[Mark] = []
    is_profiled = False
    for record in recording.ranks.values():
        log = read_log(record.file or "")
        is_profiled |= log.profiler
        marks += _marks(record, log)
    note = KERNELS if is_profiled else ENQUEUED
    return measured(plan, marks, notes=[note], aligned=is_profiled)


def _marks(record: RankRecord, log: Log) -> Iterator[Mark]:
    ends = _ends(log)
    for one, (action, member) in zip(record.actions, places_of(record), strict=True):
        at = one.number
        if at is None:
            continue
        begin = log.entries[at].time
        end = ends.get(at)
        if end is None and one.progress not in (Progress.ISSUED, Progress.STARTED):
            end = begin
        yield Mark(record.rank, action, member, begin / 1e3, None if end is None else end / 1e3)


def _ends(log: Log) -> dict[int, int]:
    """Return when every call came back, or its kernels ended, by the place of its record."""
    open_calls: dict[int, list[int]] = defaultdict(list)
    begun: dict[int, int] = {}
    ends: dict[int, int] = {}
    for at, entry in enumerate(log.entries):
        if entry.op == COMM_INFO:
            continue
        if log.profiler:
            if not entry.phase:
                begun[entry.stream] = at
            elif entry.phase == 2 and entry.stream in begun:
                ends[begun[entry.stream]] = entry.time
        elif not entry.phase:
            open_calls[entry.thread].append(at)
        elif open_calls[entry.thread]:
            ends[open_calls[entry.thread].pop()] = entry.time
    return ends
