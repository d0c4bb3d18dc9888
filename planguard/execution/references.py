"""Which earlier actions of its rank an action refers to: handles, dependencies, events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.execution.findings.stuck import place_of
from planguard.plan.actions import KIND_MASK, Kind

if TYPE_CHECKING:
    from planguard.execution.running.executor import Execution

MEMBER = 64
NONE = 0xFFFFFFFF


def entry_of(execution: Execution, rank: int, action: int) -> int:
    """Return the column entry of an action index."""
    columns = execution.columns
    start, end = columns.rank_off[rank], columns.rank_off[rank + 1]
    if not _has_batch(execution, rank):
        return action
    seen = -1
    for at in range(start, end):
        seen += not columns.op[at] & MEMBER
        if seen == action:
            return int(at - start)
    raise IndexError(action)


def _has_batch(execution: Execution, rank: int) -> bool:
    columns = execution.columns
    part = bytes(columns.op[columns.rank_off[rank] : columns.rank_off[rank + 1]])
    return int(Kind.BATCH) in part or int(Kind.BATCH) | 128 in part


def referred(execution: Execution, rank: int, action: int) -> list[tuple[int, int]]:
    """Return the ``(rank, action)`` pairs that an action needs in order to be well formed."""
    columns = execution.columns
    entry = entry_of(execution, rank, action)
    at = columns.rank_off[rank] + entry
    kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
    targets: list[int] = []
    if kind in {Kind.WAIT, Kind.TEST, Kind.DROP}:
        targets = [arg]
    elif kind in {Kind.WAIT_MANY, Kind.COMPUTE} and arg != NONE:
        targets = list(columns.aux[arg + 1 : arg + 1 + columns.aux[arg]])
    elif kind == Kind.EVENT_WAIT:
        targets = _last_record(execution, rank, entry, arg)
    found = [place_of(execution, rank, target) for target in targets]
    return [(place.rank, place.action) for place in found]


def _last_record(execution: Execution, rank: int, entry: int, event: int) -> list[int]:
    columns = execution.columns
    start = columns.rank_off[rank]
    for at in range(start + entry - 1, start - 1, -1):
        if columns.op[at] & KIND_MASK == Kind.EVENT_RECORD and columns.arg[at] == event:
            return [at - start]
    return []
