"""Communicators made by ``new_group``: their identity is member list and creation counter.

torch.distributed names a group by a counter of the process, so two ranks share a communicator
only when their counters agree; the plan's own name for the group plays no part (PG406).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.plan.actions import Kind, is_collective

if TYPE_CHECKING:
    from planguard.execution.executor import Execution

KIND_MASK = 63


def collectives_by_comm(execution: Execution, rank: int) -> dict[int, set[int]]:
    """Return the column positions of ``rank``'s collectives by communicator number."""
    columns = execution.columns
    homes = _virtual_numbers(execution)
    own: dict[int, int] = {}
    counter = 0
    calls: dict[int, set[int]] = {}
    for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
        kind = columns.op[at] & KIND_MASK
        if kind == Kind.NEW_GROUP:
            own[columns.arg[at]] = counter
            counter += 1
        elif is_collective(kind):
            ginst = columns.slot_ginst[columns.arg[at]]
            group = columns.ginst_group[ginst]
            comm = homes[_members(execution, ginst), own[group]] if group in own else ginst
            calls.setdefault(comm, set()).add(at)
    return calls


def _members(execution: Execution, ginst: int) -> tuple[int, ...]:
    columns = execution.columns
    return tuple(columns.slot_rank[columns.ginst_off[ginst] : columns.ginst_off[ginst + 1]])


def _virtual_numbers(execution: Execution) -> dict[tuple[tuple[int, ...], int], int]:
    """Number the created communicators in the order in which lowering meets them."""
    columns = execution.columns
    numbers: dict[tuple[tuple[int, ...], int], int] = {}
    first = len(columns.ginst_group)
    for rank in range(columns.world_size):
        counter = 0
        for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
            if columns.op[at] & KIND_MASK != Kind.NEW_GROUP:
                continue
            for ginst, group in enumerate(columns.ginst_group):
                members = _members(execution, ginst)
                if group == columns.arg[at] and rank in members:
                    numbers.setdefault((members, counter), first + len(numbers))
            counter += 1
    return numbers
