"""Communicators made by ``new_group``: their identity is member list and creation counter.

torch.distributed names a group by a counter of the process, so two ranks share a communicator
only when their counters agree; the plan's own name for the group plays no part (PG406).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.cause import make_finding
from planguard.execution.findings.ledger import apply_ledger
from planguard.execution.findings.notes import creation_findings
from planguard.execution.issued import issued
from planguard.plan.actions import KIND_MASK, Kind, is_collective
from planguard.semantics import mpi
from planguard.semantics.model import NewGroup, find_model
from planguard.verdict import Outcome
from planguard.words import name_ranks

if TYPE_CHECKING:
    from planguard.execution.running.executor import Execution
    from planguard.plan.plan import Plan
    from planguard.verdict import Finding, Verdict

MEMBERS_DIFFER = "members of different groups meet in one creation"
"""Note of a PG406 that is a match whose members disagree, not only an order of names."""
UNNAMED = frozenset(model.name for model in mpi.MODELS)
"""Models whose communicators have no name that two groups could share."""


def collectives_by_comm(execution: Execution, rank: int) -> dict[int, set[int]]:
    """Return the column positions of ``rank``'s collectives by communicator number."""
    columns = execution.columns
    homes = _virtual_numbers(execution)
    own: dict[int, int] = {}
    counter = 0
    calls: dict[int, set[int]] = {}
    for at in issued(columns, rank):
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
        for at in issued(columns, rank):
            if columns.op[at] & KIND_MASK != Kind.NEW_GROUP:
                continue
            for ginst, group in enumerate(columns.ginst_group):
                members = _members(execution, ginst)
                if group == columns.arg[at] and rank in members:
                    numbers.setdefault((members, counter), first + len(numbers))
            counter += 1
    return numbers


def with_clashes(verdict: Verdict, plan: Plan, columns: Any) -> Verdict:
    """Add PG406 where one place in the order of creation is of different groups on two ranks.

    Their members meet under one name: measured on four gloo ranks, where 0 and 1 made a group and
    2 and 3 another, rank 0 summed with rank 3 and the others lost their connection. MPI gives a
    communicator no name of this kind.
    """
    if not columns.has_new_group:
        return verdict
    if verdict.model in UNNAMED:
        is_entered = find_model(verdict.model).new_group is NewGroup.ENTERING
        clash = _overlap(plan, columns) if is_entered else None
    else:
        clash = _clash(plan, columns)
    if clash is None:
        return _renamed(verdict, plan, columns) if verdict.safe else verdict
    found = replace(
        verdict, findings=(clash, *(f for f in verdict.findings if f.code != clash.code))
    )
    if verdict.outcome.severity >= Outcome.MISMATCH.severity:
        return found
    return apply_ledger(
        replace(
            found,
            outcome=Outcome.MISMATCH,
            models={**verdict.models, verdict.model: Outcome.MISMATCH},
            complete=verdict.complete,
            proved=(),
            reasons=verdict.reasons,
            safe_iff=(),
            certificate=None,
        )
    )


def _renamed(verdict: Verdict, plan: Plan, columns: Any) -> Verdict:
    """Leave a plan undecided in which a group has another number on two of its members (PG406).

    ::

        rank 0:  new_group(a)  new_group(b)  all_reduce(a)       torch: communicator 0
        rank 1:  new_group(b)  new_group(a)  all_reduce(b)       torch: communicator 0, too

    Every call has its partner. Whether it is the one that was meant, the names of the groups
    contradict, and a plan may give one group another name on every rank.
    """
    if not creation_findings(plan, columns):
        return verdict
    reason = "groups are created in another order on two ranks, and named crosswise (PG406)"
    return replace(
        verdict,
        outcome=Outcome.UNKNOWN,
        models={**verdict.models, verdict.model: Outcome.UNKNOWN},
        proved=(),
        reasons=(*verdict.reasons, reason),
        certificate=None,
    )


def _clash(plan: Plan, columns: Any) -> Finding | None:
    """Return the first place of creation at which two ranks make different groups of their own.

    Who is no member makes nothing, and groups of one rank each meet nobody (measured). A group of
    one against a larger one is no harmless case: the one writes its address under the name that
    both share. Measured on three gloo ranks: where rank 0 made {0} between ranks 1 and 2 making
    {1, 2}, these two never connected; where it came last, all ended well. A family is
    made by one call for all of it, so its groups do not differ.
    """
    first: dict[int, tuple[object, int, int]] = {}
    for rank in range(columns.world_size):
        place = action = 0
        for at in issued(columns, rank):
            if columns.op[at] & KIND_MASK == Kind.NEW_GROUP:
                index = columns.arg[at]
                group = plan.groups[index]
                members = tuple(group.members(rank, plan.mesh))
                who = index if group.is_family else members if len(members) > 1 else "alone"
                if rank in members:
                    other, one, there = first.setdefault(place, (who, rank, action))
                    if other != who:
                        return _different(plan, place, (one, there), (rank, action))
                place += 1
            action += not columns.op[at] & 64
    return None


def _overlap(plan: Plan, columns: Any) -> Finding | None:
    """Return the first creation of the whole world in which a rank is in two different groups.

    ``MPI_Comm_create`` takes disjoint groups in one call, and asks all members of a group for the
    same one (MPI 4.1, 7.4.2).
    """
    first: dict[tuple[int, int], tuple[tuple[int, ...], int, int]] = {}
    for rank in range(columns.world_size):
        place = action = 0
        for at in issued(columns, rank):
            if columns.op[at] & KIND_MASK == Kind.NEW_GROUP:
                members = tuple(plan.groups[columns.arg[at]].members(rank, plan.mesh))
                for member in members if rank in members else ():
                    known = first.setdefault((place, member), (members, rank, action))
                    if known[0] != members:
                        return _crossed(plan, known[1:], (rank, action))
                place += rank in members
            action += not columns.op[at] & 64
    return None


def _crossed(plan: Plan, one: tuple[int, int], two: tuple[int, int]) -> Finding:
    names = [plan.action_at(*at).fields["group"] for at in (one, two)]
    return make_finding(
        "PG406",
        f"rank {one[0]} creates group {names[0]} and rank {two[0]} group {names[1]} in one call of "
        "the world; they have a rank in common and differ",
        ranks=(one[0], two[0]),
        primary=plan.location(*two),
        related_actions=(plan.location(*one),),
        notes=(MEMBERS_DIFFER,),
    )


def _different(plan: Plan, place: int, one: tuple[int, int], two: tuple[int, int]) -> Finding:
    names = [plan.action_at(*at).fields["group"] for at in (one, two)]
    return make_finding(
        "PG406",
        f"creation {place + 1} is of group {names[0]} on rank {one[0]} and of group {names[1]} on "
        f"rank {two[0]}; both get one name, so their members meet each other",
        ranks=(one[0], two[0]),
        primary=plan.location(*two),
        related_actions=(plan.location(*one),),
        notes=(
            f"{name_ranks((one[0], two[0]))} disagree in the members of this group",
            MEMBERS_DIFFER,
        ),
    )
