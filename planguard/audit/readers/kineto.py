"""Kineto traces (``export_chrome_trace``): calls of torch's dispatcher and of NCCL."""

from __future__ import annotations

import operator
from collections import defaultdict
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from planguard.audit.readers.c10d import Dispatch, Dispatches, elements, groups_of
from planguard.audit.readers.names import operation
from planguard.audit.readers.part import Part
from planguard.audit.readers.safe import decode_json
from planguard.audit.readers.times import OPERATORS, is_call, way_of
from planguard.errors import PlanError
from planguard.plan.vocabulary import IN_PLACE


class _Event(Struct, gc=False):
    name: str = ""
    ts: float = 0.0
    cat: str = ""
    args: dict[str, Any] | UnsetType = UNSET


class _Trace(Struct, gc=False):
    events: list[_Event] = field(name="traceEvents", default_factory=list)
    distributed: dict[str, Any] = field(name="distributedInfo", default_factory=dict)


def read_kineto(data: bytes, file: str) -> Part:
    """Return the communications of a trace, in the order in which the host issued them.

    Raises:
        PlanError: Not a trace.
    """
    trace: _Trace = decode_json(data, _Trace, file)
    info = trace.distributed
    part = Part("kineto", file)
    rank, world = info.get("rank"), info.get("world_size")
    part.rank = rank if type(rank) is int and rank >= 0 else None
    part.world_size = world if type(world) is int and 0 < world <= 1_000_000 else None
    part.backend = str(info.get("backend", ""))[:40] or None
    part.groups = groups_of(info.get("pg_config"), part.world_size)
    events = sorted(trace.events, key=lambda event: event.ts)
    dispatches = Dispatches(part)
    way = way_of([event for event in events if event.args is not UNSET])
    types = _types_of_runs(events) if way == OPERATORS else {}
    for event in events:
        if event.args is UNSET or not is_call(event.name, event.cat, event.args, way):
            continue
        if way == OPERATORS:
            dispatches.add(_dispatch(event, event.args, file, types))
        else:
            _params(dispatches, event, event.args)
    return part


def _types_of_runs(events: list[_Event]) -> dict[tuple[str, int], str]:
    """Return the element types of gloo's runs, which name them, by operation and elements.

    A call names a list of tensors without their type; the run of one that is in place has that one
    tensor. Threads of gloo run calls side by side, so the order of runs says nothing: a type is
    taken only where all runs of an operation with as many elements have it, there is one for each
    call, and none before its call: a window that cuts off one call and another's run has as many.
    """
    types: dict[tuple[str, int], set[str]] = defaultdict(set)
    calls: dict[tuple[str, int], list[float]] = defaultdict(list)
    runs: dict[tuple[str, int], list[float]] = defaultdict(list)
    for event in events:
        args = {} if event.args is UNSET else event.args
        shapes, names = args.get("Input Dims"), args.get("Input type")
        is_run = event.name.startswith("gloo:")
        if not is_run and not event.name.startswith(OPERATORS):
            continue
        op = operation(event.name.removeprefix("gloo:").removeprefix(OPERATORS))
        count = elements(shapes[0]) if isinstance(shapes, list) and shapes else None
        if op not in IN_PLACE or count is None:
            continue
        (runs if is_run else calls)[op, count].append(event.ts)
        if is_run:
            types[op, count].add(str(names[0]) if isinstance(names, list) and names else "")
    found = {}
    for key, own in types.items():
        began, ran = sorted(calls[key]), sorted(runs[key])
        is_whole = len(began) == len(ran) and all(map(operator.le, began, ran))
        if len(own) == 1 and is_whole:
            found[key] = min(own)
    return found


def _dispatch(
    event: _Event, args: dict[str, Any], file: str, runs: dict[tuple[str, int], str]
) -> Dispatch:
    values, shapes = args.get("Concrete Inputs", []), args.get("Input Dims", [])
    types = args.get("Input type", [])
    if not all(isinstance(row, list) for row in (values, shapes, types)):
        raise PlanError("arguments of a call are no list", file=file, path="$.traceEvents")
    # A list of tensors names no element type in this format.
    names = [name if name != "TensorList" else "" for name in map(str, types)]
    if names and not names[0] and shapes:
        op, count = operation(event.name.removeprefix(OPERATORS)), elements(shapes[0])
        names[0] = "" if count is None else runs.get((op, count), "")
    number = args.get("Ev Idx")
    return Dispatch(
        event.name.removeprefix("c10d::"),
        values,
        shapes,
        names,
        int(event.ts * 1000) if 0 < event.ts < 1e15 else None,
        number if type(number) is int else None,
    )


def _params(dispatches: Dispatches, event: _Event, args: dict[str, Any]) -> None:
    """Append a call that NCCL describes in full: group, peers, sizes."""
    name = str(args.get("Collective name", ""))
    dispatches.add_described(
        Dispatch(name, [], [], [], int(event.ts * 1000) if 0 < event.ts < 1e15 else None),
        str(args.get("Process Group Name", "0"))[:200],
        (args.get("In msg nelems"), args.get("Out msg nelems")),
        (args.get("Dst Rank"), args.get("Src Rank")),
        str(args.get("dtype", "")),
        (args.get("In split size"), args.get("Out split size")),
    )
