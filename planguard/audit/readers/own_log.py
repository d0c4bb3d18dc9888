"""PlanGuard's own recordings, logs of recorded runs and of captured ranks; and its plans."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from planguard import registry
from planguard.audit.readers.part import PLAN, Part, PartGroup
from planguard.audit.readers.safe import decode_json
from planguard.errors import PlanError
from planguard.execution.findings.undecided import UNSEEN
from planguard.plan.vocabulary import BLOCKING
from planguard.recording import Call, Observed, Progress, Track
from planguard.recording.planned import call_of, check_types

MAX_ACTIONS = 20_000_000


class _Log(Struct):
    rank: int
    actions: list[dict[str, Any]]
    groups: dict[str, list[int]] = field(default_factory=dict)


def read_own_log(data: bytes, file: str) -> Part:
    """Return the log of one captured rank: actions as in plan files, groups by key.

    Raises:
        PlanError: Not such a log.
    """
    log: _Log = decode_json(data, _Log, file)
    if log.rank < 0:
        raise PlanError("rank is negative", file=file, path="$.rank", value=log.rank)
    part = Part("log", file, rank=log.rank, has_ended=True)
    world = max(log.groups.values(), key=len, default=[])
    names = {}
    for key, ranks in log.groups.items():
        is_world = ranks == list(range(len(world))) and "#" not in key
        names[key] = "world" if is_world else key[:200]
        part.groups[names[key]] = PartGroup(tuple(ranks), size=len(ranks))
    try:
        part.track = Track.of(one for action in log.actions for one in _observed(action, names))
    except (KeyError, TypeError, AttributeError, ValueError):
        raise PlanError(
            "an action has fields of a wrong type", file=file, path="$.actions"
        ) from None
    return part


def _observed(action: dict[str, Any], names: dict[str, str], depth: int = 0) -> list[Observed]:
    """Return one action of a log, the members of a batch one by one."""
    if depth > 4:
        raise ValueError("batches in batches")
    check_types(action)
    op = str(action["op"])
    group = names.get(str(action.get("group", "world")), str(action.get("group", "world")))
    plain = {name: value for name, value in action.items() if name != "async_"}
    call: Call = call_of({**plain, "group": group})
    work = action.get("work")
    is_async = bool(action.get("async_", action.get("async", False))) or op in BLOCKING
    if op == "batch":
        members = [one for inner in action["ops"] for one in _observed(inner, names, depth + 1)]
        number = id(action)
        return [
            Observed(one.call, 0, Progress.COMPLETED, work is not None, work, number)
            for one in members
        ]
    handle = work if isinstance(work, str) else None
    return [Observed(call, 0, Progress.COMPLETED, is_async, handle)]


def read_run_log(data: bytes, file: str) -> Part:
    """Return the log that ``planguard dryrun`` or ``planguard.capture.start`` wrote on one rank.

    Raises:
        PlanError: The log is damaged.
        UsageError: The adapter that reads it is not installed.
    """
    adapter: Any = registry.find("dryrun")  # audit and capture stand beside each other
    recording = adapter.recording(data, file)
    (record,) = recording.ranks.values()
    # A log is no ring: what did not fit, and what was cut, are its last records.
    lost = next((gap.message for gap in recording.gaps if gap.code == "PG912" and gap.count), "")
    part = Part(
        "run",
        file,
        rank=record.rank,
        world_size=recording.world_size,
        track=record.track,
        groups={name: PartGroup(g.ranks, size=g.size) for name, g in recording.groups.items()},
        lost=lost,
        has_ended=None if lost else record.has_ended,
        backend=recording.backend,
        attempt=adapter.attempt(data),
        unseen=tuple(gap.message for gap in recording.gaps if gap.kind == UNSEEN),
    )
    part.notes += recording.notes
    return part


def read_plan(_: bytes, file: str) -> Part:
    """Return that a file is a plan: what was meant to happen, and no evidence that it did."""
    return Part(PLAN, file)
