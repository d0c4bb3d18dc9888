"""A recording without gaps as a plan."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError
from planguard.plan.format import read
from planguard.plan.vocabulary import BLOCKING, HANDLES, MESSAGES, STARTED
from planguard.recording.observed import Call, Observed
from planguard.recording.track import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.plan.plan import Plan
    from planguard.recording.recording import RankRecord, Recording

MAX_PERIODS = 64
"""Lengths that are tried for the step that a program repeats."""


def promote(recording: Recording, *, blocking: bool, folded: bool = False) -> Plan:
    """Return the plan that every rank was seen following.

    Args:
        recording: What was seen.
        blocking: Calls of which it was not seen block the host.
        folded: Steps that repeat are a loop. The engine unrolls it, so its answer is the same;
            what it says of single actions names them by their places in the loop.

    Raises:
        PlanError: The recording has gaps; the message names them.
    """
    _refuse_gaps(recording)
    # The document is written out at once, so equal actions may be one object in it.
    if folded and blocking:
        return read(_document(recording, _folded))
    return read(_document(recording, _shared if blocking else _later))


def document_of(recording: Recording, *, blocking: bool = True) -> dict[str, Any]:
    """Return the plan file of what was recorded, gaps or not; a missing rank does nothing in it.

    For pictures: what a recording with gaps shows is no plan to decide.
    """
    return _document(recording, _own if blocking else _later)


def _document(
    recording: Recording, program: Callable[[RankRecord], list[dict[str, Any]]]
) -> dict[str, Any]:
    ranks: dict[str, Any] = {
        str(rank): {"actions": program(record)} for rank, record in sorted(recording.ranks.items())
    }
    for rank in recording.missing:
        ranks[str(rank)] = {"actions": []}
    document: dict[str, Any] = {
        "schema": "planguard.plan/1",
        "world_size": recording.world_size,
        "producer": {"tool": "+".join(recording.kinds) or "recording"},
        "groups": _groups(recording),
        "ranks": ranks,
    }
    if not document["groups"]:
        del document["groups"]
    return document


def places_of(record: RankRecord) -> list[tuple[int, int | None]]:
    """Return for every observed action its action index in the plan, and its place in a batch."""
    places: list[tuple[int, int | None]] = []
    launches: dict[int, list[int]] = {}
    actions = 0
    for one in record.actions:
        launch = None if one.batch is None else launches.get(one.batch)
        if launch is None:
            launch = [actions, -1]
            actions += 1
            if one.batch is not None:
                launches[one.batch] = launch
        launch[1] += 1
        places.append((launch[0], None if one.batch is None else launch[1]))
    return places


def _refuse_gaps(recording: Recording) -> None:
    if not recording.gaps:
        return
    said = "; ".join(gap.message for gap in recording.gaps[:5])
    more = len(recording.gaps) - 5
    raise PlanError(
        f"the recording has gaps and is no plan: {said}"
        + (f"; and {more} more" if more > 0 else ""),
        code=recording.gaps[0].code,
        hint="add the missing dumps, or compare the recording with the intended plan",
    )


def _groups(recording: Recording) -> dict[str, Any]:
    world = tuple(range(recording.world_size))
    return {
        name: {"ranks": list(group.members)}
        for name, group in recording.groups.items()
        if group.members and (name != "world" or group.members != world)
    }


def _own(record: RankRecord) -> list[dict[str, Any]]:
    return _program(record, blocking=True)


def _later(record: RankRecord) -> list[dict[str, Any]]:
    return _program(record, blocking=False)


def _shared(record: RankRecord) -> list[dict[str, Any]]:
    """Return the program of a rank that blocks in every call; equal calls are one object.

    A run makes the same few calls again and again.
    """
    track = record.track
    if track.more or any(batch != ABSENT for batch in track.batch):
        return _program(record, blocking=True)
    rows = [_fields(Observed(call), is_async=False) for call in track.calls]
    return [rows[place] for place in track.call]


def _folded(record: RankRecord) -> list[dict[str, Any]]:
    """Return the program of ``_shared`` with the steps at its end as a loop, where they repeat."""
    track = record.track
    period, times = steps(track.call.tobytes(), track.call.itemsize)
    # In a loop a label may ask for the number of the iteration.
    if times < 2 or any("{" in (call.label or "") for call in track.calls):
        return _shared(record)
    program = _shared(record)
    first = len(program) - period * times
    if first < 0 or len(program) != len(track):
        return program
    body = program[len(program) - period :]
    return [*program[:first], {"op": "repeat", "times": times, "body": body}]


@lru_cache(maxsize=64)
def steps(calls: bytes, size: int) -> tuple[int, int]:
    """Return the length of the step that a program ends with again and again, and how often.

    Args:
        calls: Numbers of the calls, one after the other.
        size: Bytes of one.

    Returns:
        The period that covers most of the calls, in calls, and its times; 0 and 1 if there is none.
    """
    last, best = calls[-size:], (0, 1)
    if len(calls) < 2 * size:
        return best
    end = len(calls) - size
    for _ in range(MAX_PERIODS):
        end = _before(calls, last, end, size)
        length = len(calls) - size - end
        if end < 0 or 2 * length > len(calls):
            break
        body, times = calls[-length:], 1
        while calls[-length * (times + 1) : -length * times] == body:
            times += 1
        if times > 1 and times * length - length > best[0] * (best[1] - 1) * size:
            best = length // size, times
    return best


def _before(calls: bytes, one: bytes, end: int, size: int) -> int:
    """Return where a call stands last in front of a place; negative if nowhere."""
    found = calls.rfind(one, 0, end)
    while found % size and found > 0:
        found = calls.rfind(one, 0, found + size - 1)
    return -1 if found % size else found


def _program(record: RankRecord, *, blocking: bool) -> list[dict[str, Any]]:
    program: list[dict[str, Any]] = []
    works: list[str] = []  # handles nobody was seen waiting for
    waited = {one.work for one in record.actions if one.call.op in ("wait", "drop")}
    batches: dict[int, dict[str, Any]] = {}
    for number, one in enumerate(record.actions):
        is_async = (not blocking) if one.is_async is None else one.is_async
        work = one.work or f"r{number}"
        if one.batch is not None:
            launch = batches.get(one.batch)
            if launch is None:
                launch = batches[one.batch] = {"op": "batch", "ops": []}
                if is_async:
                    launch["work"] = work
                    works += [work] if work not in waited else []
                program.append(launch)
            launch["ops"].append(_fields(one, is_async=True))
            continue
        fields = _fields(one, is_async=is_async)
        if is_async and one.call.is_communication:
            fields["work"] = work
            works += [work] if work not in waited and one.is_async is None else []
        program.append(fields)
    program += [{"op": "wait", "work": work} for work in works]
    return program


def _fields(one: Observed, *, is_async: bool) -> dict[str, Any]:
    call = one.call
    op = (STARTED if is_async else BLOCKING).get(call.op, call.op)
    fields: dict[str, Any] = {"op": op}
    optional = {
        "group": call.group if call.group != "world" else None,
        "root": call.root,
        "reduce_op": call.reduce_op,
        "label": call.label,
        "in_splits": None if call.in_splits is None else list(call.in_splits),
        "out_splits": None if call.out_splits is None else list(call.out_splits),
    }
    fields |= {name: value for name, value in optional.items() if value is not None}
    if call.op in MESSAGES:
        fields["peer"] = "any" if call.peer is None else call.peer
        if call.tag:
            fields["tag"] = call.tag
    elif call.is_collective and is_async:
        fields["async"] = True
    if call.op in HANDLES and one.work is not None:
        fields["work"] = one.work
    if _may_be_uneven(call):
        fields |= {} if call.dtype is None else {"dtype": call.dtype}
    elif call.count is not None and call.dtype is not None:
        fields |= {"count": call.count, "dtype": call.dtype}
    elif call.bytes is not None:
        fields["bytes"] = call.bytes
    if (at := call.source) is not None:
        fields["src"] = [at.file, at.line or 0, at.function or ""]
    return fields


def _may_be_uneven(call: Call) -> bool:
    """Tell whether members may have other sizes, in parts that the recording does not tell.

    NCCL's Flight Recorder writes ``all_to_all_single`` with splits as ``nccl:all_to_all`` with what
    goes in and comes out (torch 2.13.0, ``ProcessGroupNCCL::alltoall_base``): equal or not, such
    sizes say nothing of what each gives to each.
    """
    is_open = call.shape is not None and call.in_splits is None and call.out_splits is None
    return is_open and call.family == "all_to_all"
