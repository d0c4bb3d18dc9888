"""ProcessGroupMPI: the host and the workers of a process take turns at MPI, under one lock.

torch posts messages where the program calls them, from the thread of the host (`MPI_Isend`,
`MPI_Irecv`), and waits for them there. A collective is run by a worker thread, one for each process
group, in order of issue. Every call of MPI is made under one lock of the process, a wait for a
message and a blocking collective from begin to end (`ProcessGroupMPI.cpp`; ADR 0031)::

    rank 0:  all_reduce, asynchronous     rank 1:  all_reduce
             recv from 1                           send to 0

If the host of rank 0 gets the lock before its worker, it keeps it until the message comes, which
rank 1 sends only behind the all_reduce. If the worker is first, all is well. Who is first is open.

Nothing is open where no rank asks for the lock while a collective of its own, in another thread,
may hold it or want it. Without the lock a run makes at least as much progress as with it, and what
completes without it completes with it in some order: the workers and hosts take the lock match by
match, in the order in which the run without it completes them. So DEADLOCK, MISMATCH and
POTENTIAL_DEADLOCK stay what they are, and SAFE is left open where turns are. `reordering.turns`
then searches all orders of a fixed plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.cause import left_open, open_finding
from planguard.execution.findings.reason import construct
from planguard.execution.issued import issued
from planguard.plan.actions import (
    ASYNC,
    KIND_MASK,
    MEMBER,
    NONE,
    Kind,
    is_collective,
    is_point_to_point,
)
from planguard.semantics.model import find_model

if TYPE_CHECKING:
    from planguard.verdict import Verdict

_CREATES = (Kind.NEW_GROUP, Kind.INIT)
_ONE = (Kind.WAIT, Kind.TEST, Kind.DROP)
_MANY = (Kind.WAIT_MANY, Kind.COMPUTE)


def with_turns(verdict: Verdict, columns: Any) -> Verdict:
    """Leave a plan undecided that is safe only if the threads of a process take turns in its favor.

    Args:
        verdict: The verdict without the lock.
        columns: The columns of the plan.
    """
    if not (verdict.safe and find_model(verdict.model).one_lock):
        return verdict
    rank = next((r for r in range(columns.world_size) if takes_turns(columns, r)), None)
    if rank is None:
        return verdict
    finding = open_finding(
        construct(
            f"a collective of rank {rank} may be in flight while another thread of it calls MPI; "
            "ProcessGroupMPI lets one thread at a time, and who is first is open"
        )
    )
    return left_open(verdict, finding)


def takes_turns(columns: Any, rank: int) -> bool:
    """Tell whether two threads of a rank may want MPI at one time.

    In blocks the order is open: there it is enough that the rank makes asynchronous collectives, or
    has threads, and anything else that needs MPI from another thread.
    """
    if columns.has_markers:
        return _may_take_turns(columns, rank)
    return _Walk(columns, rank).takes_turns()


def _may_take_turns(columns: Any, rank: int) -> bool:
    groups: set[int] = set()
    behind = has_other = False
    for at in issued(columns, rank):
        op, kind = columns.op[at], columns.op[at] & KIND_MASK
        behind |= kind == Kind.THREADS_BEGIN
        if is_collective(kind):
            behind |= bool(op & (ASYNC | MEMBER))
            groups.add(columns.slot_ginst[columns.arg[at]])
        has_other |= is_point_to_point(kind) or kind in _CREATES
    return behind and (has_other or len(groups) > 1)


@dataclass
class _Walk:
    """What a rank has in flight while its fixed program is read."""

    columns: Any
    rank: int
    flying: dict[int, set[int]] = field(default_factory=dict)
    """Group instances of the collectives in flight, by the entry of their handle."""

    def takes_turns(self) -> bool:
        own = issued(self.columns, self.rank)
        at = own.start
        while at < own.stop:
            kind = self.columns.op[at] & KIND_MASK
            members = self.columns.arg[at] if kind == Kind.BATCH else 0
            if self._meets(at, own.start, range(at + 1, at + 1 + members) or range(at, at + 1)):
                return True
            at += 1 + members
        return False

    def _meets(self, at: int, start: int, calls: range) -> bool:
        columns, kind = self.columns, self.columns.op[at] & KIND_MASK
        if kind in _ONE or kind in _MANY:
            return any(self._is_held_up(start, kind, one) for one in self._targets(at, kind))
        kinds = [columns.op[call] & KIND_MASK for call in calls]
        groups = {
            columns.slot_ginst[columns.arg[call]]
            for call, one in zip(calls, kinds, strict=True)
            if is_collective(one)
        }
        others = any(is_point_to_point(one) or one in _CREATES for one in kinds)
        flying: set[int] = set().union(*self.flying.values())
        if (others and flying) or (groups and flying - groups):
            return True
        if len(groups) > 1 or (groups and others):
            return True  # a batch is a loop of asynchronous calls
        if groups and columns.op[at] & ASYNC:
            self.flying[at - start] = groups
        elif groups:  # it is complete, and what its worker did before
            self.flying = {}
        return False

    def _targets(self, at: int, kind: int) -> list[int]:
        arg = self.columns.arg[at]
        if kind in _ONE:
            return [arg]
        return (
            [] if arg == NONE else list(self.columns.aux[arg + 1 : arg + 1 + self.columns.aux[arg]])
        )

    def _is_held_up(self, start: int, kind: int, target: int) -> bool:
        """Tell whether a wait or test calls MPI beside a worker; one for a worker calls nothing."""
        columns = self.columns
        if target in self.flying:
            waits = kind == Kind.WAIT or (kind in _MANY and not columns.has_wait_choice)
            done = [entry for entry in self.flying if entry <= target and waits]  # one worker
            for entry in done:
                del self.flying[entry]
            return False
        return bool(self.flying) and not is_collective(columns.op[start + target] & KIND_MASK)
