"""What ``planguard report`` draws: plans, recordings with their measured times, result stores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.cli.adapters import LOOKED_AT, is_evidence, load_plan
from planguard.errors import PlanError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from planguard.plan.plan import Plan
    from planguard.simulate.schedule import Schedule
    from planguard.verdict import Verdict

SQLITE = b"SQLite format 3\0"
RUN, NCCL = "*.pgrun", "*.pglog"
TRACES = frozenset({"flight-recorder", "kineto", "execution-trace", "nccl-log"})
"""Kinds of recordings that are read as an audit reads them; adapters read the others."""


@dataclass(frozen=True)
class Subject:
    """What is drawn.

    Attributes:
        plan: The plan, or the one that a recording became.
        run: Its measured times, or None: they are modeled.
        verdict: What an audit said of a recording; None: the plan is still to be checked.
    """

    plan: Plan
    run: Schedule | None = None
    verdict: Verdict | None = None


def is_store(path: str) -> bool:
    """Whether a file is an SQLite store of ``planguard screen``."""
    return _head(Path(path), len(SQLITE)) == SQLITE


def subject(path: str, args: argparse.Namespace) -> Subject:
    """Read what a path names; with an adapter or its options, as any plan.

    Raises:
        PlanError: It cannot be read.
        UsageError: There is nothing to read, or no such planner.
    """
    if args.planner is not None or args.option:
        return Subject(load_plan(path, args))
    reader = _reader(Path(path))
    if reader is not None:
        return reader(path)
    try:
        return Subject(load_plan(path, args))
    except PlanError:
        if not is_evidence(path):
            raise
        return _recording(path)  # logs and stacks: no times, and the ranks where they stood


def _reader(path: Path) -> Callable[[str], Subject] | None:
    from planguard.capture.nccl.preload_log import MAGIC as NCCL_MAGIC
    from planguard.capture.run.log import MAGIC as RUN_MAGIC

    if path.is_dir():
        if any(path.glob(RUN)):
            return _run
        if any(path.glob(NCCL)):
            return _nccl
        files = [p for p in sorted(path.iterdir()) if p.is_file()][:LOOKED_AT]
        return _recording if any(_is_recording(file) for file in files) else None
    head = _head(path, 16)
    if head.startswith(RUN_MAGIC):
        return _run
    if head.startswith(NCCL_MAGIC):
        return _nccl
    return _recording if _is_recording(path) else None


def _head(path: Path, count: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError:
        return b""  # the reader says what is wrong with the path


def _is_recording(path: Path) -> bool:
    """Whether a file is a dump or a trace; only what may be one is read whole."""
    from planguard.audit.readers.files import HEAD, kind_of, read

    head = _head(path, HEAD)
    if not head.startswith((b"\x1f\x8b", b"{", b"[")):
        return kind_of(head) in TRACES
    try:
        return kind_of(read(path)) in TRACES
    except PlanError:
        return False


def _run(path: str) -> Subject:
    from planguard import api
    from planguard.capture.run.times import schedule_of_run

    plan = api.load(path, planner="dryrun")
    return Subject(plan, schedule_of_run(path, plan))


def _nccl(path: str) -> Subject:
    from planguard.capture.nccl.preload_times import schedule_of_logs

    run = schedule_of_logs([path])
    return Subject(run.plan, run)


def _recording(path: str) -> Subject:
    from planguard.audit.answer import AuditOptions, audit_paths
    from planguard.audit.placed import placed
    from planguard.audit.timeline import drawn_recording

    drawn = drawn_recording([path])
    verdict = placed(audit_paths([path], AuditOptions(takes_plans=False)), drawn.places)
    return Subject(drawn.schedule.plan, drawn.schedule, verdict)
