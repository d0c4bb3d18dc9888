"""From the logs of a recorded run to its recording and its plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from planguard.capture.play.logs import RankLog, build_plan
from planguard.capture.run.gaps import gaps_of
from planguard.capture.run.orders import open_orders
from planguard.capture.run.ranks import ATTEMPTS, ReadRank, read_log, read_run, run_logs
from planguard.capture.values.value_reads import IN_LIBRARY, folded
from planguard.errors import PlanError, UsageError
from planguard.execution.findings.undecided import UNSEEN
from planguard.recording import Gap, Observed, Progress, RankRecord, RecordedGroup, Recording
from planguard.recording.compare import PROLOGUE
from planguard.recording.planned import call_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.plan import Plan
    from planguard.recording import Call
    from planguard.verdict import Source

__all__ = [
    "INCOMPLETE",
    "ReadRank",
    "plan_of_run",
    "read_run",
    "recording_of_log",
    "recording_of_run",
    "run_logs",
    "without_prologue",
]
INCOMPLETE = "incomplete-log"
READY, RECORDED = "ready", "recorded"
SEEN, FIXED = "seen", "fixed"
MODELS = {"gloo": "gloo", "nccl": "nccl"}
"""Execution model of a run by the backend it ran on."""


def plan_of_run(
    path: str | Path,
    *,
    name: str | None = None,
    model: str | None = None,
    order: str = READY,
    buffers: str = SEEN,
    attempt: int | None = None,
) -> Plan:
    """Return the plan that the ranks of a run were seen following.

    What is missing goes into the ledger, so that an incomplete recording is never decided.

    Args:
        path: Folder of the logs.
        name: Name of the plan; that of the folder if None.
        model: Execution model; that of the backend it ran on if None.
        order: ``ready``: hooks on gradients communicate in any order in which the gradients may
            become ready; ``recorded``: as they did.
        buffers: ``seen``: gradients have their places in a buffer before they are ready where they
            are views of it; ``fixed``: always, which is assumed.
        attempt: Which start of a job that was started anew; the last one if None.

    Raises:
        UsageError: There is no log, or no such order.
        PlanError: The logs are damaged or make no plan.
    """
    if order not in (READY, RECORDED):
        raise UsageError(f"no order {order!r}", hint=f"{READY} or {RECORDED}")
    if buffers not in (SEEN, FIXED):
        raise UsageError(f"no buffers {buffers!r}", hint=f"{SEEN} or {FIXED}")
    ranks = read_run(path, attempt)
    opened = open_orders(ranks, are_fixed=buffers == FIXED)
    world = ranks[0].log.world_size
    logs = {rank: RankLog(rank, [], {}) for rank in range(world)}
    notes = [
        (INCOMPLETE, gap.message, direction)
        for gap in gaps_of(ranks)
        for direction in ("under", "over")
    ]
    for one in ranks:
        rank = one.log.rank
        program, open_ = (one.actions, []) if order == RECORDED else opened.programs[rank]
        logs[rank] = RankLog(
            rank,
            program,
            one.groups,
            [*one.notes, *open_, *notes],
            is_cut=one.log.has_failed or not one.log.has_ended,
        )
    if len(ranks) == world:
        logs[0].notes[:0] = notes
    _fold(logs)
    given = name or (Path(path).name if Path(path).is_dir() else None)
    model = model or MODELS.get(_backend(ranks) or "")
    fusion = [] if order == RECORDED else opened.fusion
    tool = "planguard.dryrun"
    return build_plan(logs, {}, world, (), name=given, model=model, tool=tool, fusion=fusion)


def _fold(logs: dict[int, RankLog]) -> None:
    """Say once for all ranks what libraries decide."""
    whole = folded(note for rank in sorted(logs) for note in logs[rank].notes)
    for log in logs.values():
        log.notes[:] = [note for note in log.notes if note[0] != IN_LIBRARY]
    known = {note for log in logs.values() for note in log.notes}
    logs[min(logs)].notes.extend(note for note in whole if note not in known)


def _backend(ranks: list[ReadRank]) -> str | None:
    """Return the one backend of all ranks; a list of backends by device is none."""
    found = {one.backend for one in ranks}
    return found.pop() if len(found) == 1 else None


def recording_of_run(path: str | Path) -> Recording:
    """Return what the ranks of a run were seen doing.

    Raises:
        UsageError: There is no log.
        PlanError: The logs are damaged.
    """
    return _recording(read_run(path))


def recording_of_log(data: bytes, file: str) -> Recording:
    """Return what the rank of one log was seen doing; the other ranks of the run are missing.

    What no process group sees is among the gaps.

    Raises:
        PlanError: The log is damaged, or its process is no rank of a job of process groups.
    """
    one = read_log(data, file)
    unseen = list(dict.fromkeys(text for kind, text, _ in one.notes if kind == UNSEEN))
    if not one.log.has_group:
        why = "; ".join(["its process made no process group", *unseen])
        raise PlanError(why, code="PG910", file=file)
    _, said = open_orders([one]).programs[one.log.rank]
    found = _recording([one])
    notes = [f"{text}; planguard check decides the orders of a run" for _, text, _ in said]
    gaps = [Gap(UNSEEN, text, "PG904", (one.log.rank,)) for text in unseen]
    return replace(found, notes=(*found.notes, *dict.fromkeys(notes)), gaps=(*found.gaps, *gaps))


def _recording(ranks: list[ReadRank]) -> Recording:
    world = ranks[0].log.world_size
    everyone = list(range(world))
    names: dict[str, str] = {}
    groups: dict[str, RecordedGroup] = {}
    for one in ranks:
        for key, members in one.groups.items():
            names[key] = "world" if members == everyone and "#" not in key else f"[{key}]"
            known = tuple(members)
            groups[names[key]] = RecordedGroup(names[key], known, known, size=len(known))
    records = {
        one.log.rank: RankRecord(
            one.log.rank,
            tuple(_observed(one, names)),
            dropped=one.log.dropped,
            has_ended=False if one.log.has_failed else one.log.has_ended or None,
            file=one.log.file,
        )
        for one in ranks
    }
    stub = any(one.log.is_stub for one in ranks)
    notes = ["the calls moved no data: stub mode"] if stub else []
    notes += [text for one in ranks for kind, text, _ in one.notes if kind == ATTEMPTS]
    return Recording(
        world, records, groups, tuple(gaps_of(ranks)), _backend(ranks), ("planguard",), tuple(notes)
    )


def without_prologue(recording: Recording) -> Recording:
    """Return a recording without the calls at the start that a framework made to set itself up.

    These are votes, exchanges of shapes and the distribution of parameters: no part of a step.
    """
    ranks = {}
    for rank, record in recording.ranks.items():
        actions = list(record.actions)
        places = [n for n, one in enumerate(actions) if one.call.is_communication]
        first = next((n for n in places if not _starts(actions[n])), len(actions))
        works = {one.work for one in actions[:first] if one.call.is_communication}
        kept = [one for one in actions[first:] if one.call.op != "wait" or one.work not in works]
        ranks[rank] = replace(record, actions=tuple(kept))
    return replace(recording, ranks=ranks)


def _starts(one: Observed) -> bool:
    return any(frame.function in PROLOGUE for frame in one.call.stack)


def _observed(one: ReadRank, names: dict[str, str]) -> Iterator[Observed]:
    waited = {w for a in one.actions if a["op"] == "wait" for w in _works(a)}
    launches = 0
    for action in one.actions:
        stack = one.stacks.get(id(action), ())
        work = action.get("work")
        if action["op"] == "wait":
            for name in _works(action):
                yield Observed(_call(action, names, stack), 0, Progress.COMPLETED, None, name)
            continue
        progress = _progress(one, action, waited)
        if action["op"] == "batch":
            launches += 1
            for member in action["ops"]:
                call = _call(member, names, stack)
                yield Observed(call, 0, progress, work is not None, work, launches)
            continue
        yield Observed(_call(action, names, stack), 0, progress, work is not None, work)


def _progress(one: ReadRank, action: dict[str, Any], waited: set[str]) -> Progress:
    """Return how far a call was seen to come; a wait that never came back is where it stands."""
    work = action.get("work")
    if one.times[id(action)][1] is not None or work in one.done:
        return Progress.COMPLETED
    if work is not None and work not in waited:
        return Progress.UNKNOWN  # nobody was there to see it end, and nobody stands in it
    if one.log.has_failed and action is one.actions[-1]:
        return Progress.FAILED  # the exception came out of it, or the rank never left it
    whole = one.log.has_ended and not one.log.has_failed
    return Progress.COMPLETED if whole else Progress.ISSUED


def _works(action: dict[str, Any]) -> list[str]:
    work = action["work"]
    return [work] if isinstance(work, str) else list(work)


def _call(action: dict[str, Any], names: dict[str, str], stack: tuple[Source, ...]) -> Call:
    fields = {name: value for name, value in action.items() if name != "async_"}
    if fields["op"] == "coalesced":
        sizes = [call_of({"op": "all_reduce", **part}).bytes for part in fields["ops"]]
        whole = sum(size for size in sizes if size is not None) if None not in sizes else None
        fields = {"op": fields["kind"], "group": fields["group"], "bytes": whole}
    fields["group"] = names.get(str(fields.get("group")), "world")
    return msgspec.structs.replace(call_of(fields), stack=stack)
