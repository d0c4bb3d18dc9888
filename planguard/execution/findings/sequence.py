"""Sequence numbers of a group: how many messages a rank made on it before a collective.

``TORCH_DISTRIBUTED_DEBUG=DETAIL`` compares the number with the fingerprint of every collective
(``planguard.semantics.gloo``). Each call advances it, messages too, where it is made. That a round
is the k-th call of its kind says the same of the collectives on all members, so what can differ is
the number of messages before.

In a fixed order the kernels compare them. In a block of open order, or of threads, the number of a
collective is the same in every order unless the block holds messages of its group as well. Then
only a route that decides each order by itself sees it (of threads the orders of a collective and
the messages of its group), and what another one calls safe is left open (``with_numbers``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.cause import left_open, open_finding
from planguard.execution.findings.reason import construct
from planguard.execution.issued import issued
from planguard.plan.actions import (
    KIND_MASK,
    MEMBER,
    NONE,
    SEND_KINDS,
    Kind,
    is_collective,
    is_point_to_point,
)
from planguard.plan.content import has_kind
from planguard.semantics.model import find_model
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.execution.running.executor import Execution
    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict

_BEGINS = frozenset({Kind.UNORDERED_BEGIN, Kind.THREADS_BEGIN})
_ENDS = frozenset({Kind.UNORDERED_END, Kind.THREADS_END})
CODE = "PG216"
EACH_ORDER = "explorer"
"""The route that decides every order as a fixed one."""


def messages_before(execution: Execution, at: int) -> int:
    """Return how many messages a rank made on the communicator of its collective before it.

    Args:
        execution: A run; 0 where its model counts no messages.
        at: Position of the collective in the columns.
    """
    columns = execution.columns
    kind = columns.op[at] & KIND_MASK
    if not execution.model.counts_messages or not is_collective(kind):
        return 0
    slot, found = columns.arg[at], 0
    rank = columns.slot_rank[slot]
    for place in range(columns.rank_off[rank], at):
        kind, arg = columns.op[place] & KIND_MASK, columns.arg[place]
        if _is_message(kind) and _slot(columns, kind, arg) == slot:
            found += 1
    return found


def mixes(columns: Any, *, in_blocks: bool) -> int | None:
    """Return the first rank that makes messages and collectives on one group, or None.

    Args:
        columns: The columns of a plan.
        in_blocks: Only what one block of open order, or of threads, holds of both.
    """
    compared = _compared(columns)
    for rank in range(columns.world_size):
        for calls in _blocks(columns, rank) if in_blocks else (issued(columns, rank),):
            if _both(columns, calls, compared):
                return rank
    return None


def with_numbers(verdict: Verdict, plan: Plan, columns: Any) -> Verdict:
    """Leave a plan undecided whose orders give a collective more than one sequence number.

    Args:
        verdict: The verdict on the plan.
        plan: The plan.
        columns: Its columns.
    """
    if not find_model(verdict.model).counts_messages:
        return verdict
    if verdict.outcome is Outcome.DEADLOCK:
        return _maybe_mixed(verdict, plan, columns)
    if not verdict.safe:
        return verdict
    if not (plan.fusion or columns.has_markers or _is_contested(columns)):
        return verdict  # the kernels compared them
    why = _why_open(verdict, plan, columns)
    if why is None:
        return verdict
    finding = open_finding(
        construct(
            f"{why}; {verdict.model} compares how many calls each member "
            "made on the group before a collective"
        )
    )
    return left_open(verdict, finding)


def _maybe_mixed(verdict: Verdict, plan: Plan, columns: Any) -> Verdict:
    """Say of a plan that hangs no more than that some order does, if one may mix numbers instead.

    What waits behind such a round is excused by it, so that not every order is a deadlock.
    """
    if _each_order_decided(verdict, plan, columns) or mixes(columns, in_blocks=True) is None:
        return verdict
    outcome = Outcome.POTENTIAL_DEADLOCK
    models = {**verdict.models, verdict.model: outcome}
    said = (
        f"{verdict.model} compares how many calls each member made on the group before a "
        "collective: some order may be a mismatch of these numbers instead of a deadlock"
    )
    reasons = tuple(dict.fromkeys((*verdict.reasons, said)))
    findings = tuple(  # another order has other numbers, and may have equal ones
        replace(one, certainty="some-execution") if one.code == CODE else one
        for one in verdict.findings
    )
    return replace(
        verdict, outcome=outcome, findings=findings, models=models, complete=False, reasons=reasons
    )


def _each_order_decided(verdict: Verdict, plan: Plan, columns: Any) -> bool:
    by_order = verdict.evidence.route[-1:] == (EACH_ORDER,) and not plan.fusion
    if has_kind(plan, Kind.THREADS_BEGIN) or not columns.has_markers:
        return by_order and not _is_contested(columns)
    return by_order  # where messages compete, too, each order is a plan of its own


def _why_open(verdict: Verdict, plan: Plan, columns: Any) -> str | None:
    by_order = _each_order_decided(verdict, plan, columns)
    rank = None if by_order else mixes(columns, in_blocks=not plan.fusion)
    if rank is not None:
        return f"the order of messages and collectives of one group is open on rank {rank}"
    launched = {spec.group for spec in plan.fusion}
    if any(plan.groups[columns.ginst_group[one]].name in launched for one in columns.chan_ginst):
        return "messages are made on the group of a fused buffer"
    if by_order or mixes(columns, in_blocks=False) is None:
        return None
    return _differing(columns)


def _is_contested(columns: Any) -> bool:
    any_message = columns.has_any_source or columns.has_any_tag
    return bool(any_message or columns.has_wait_choice or columns.has_probe)


def _differing(columns: Any) -> str | None:
    """Return which round has members of other numbers, in the order in which the plan is written.

    It is that of every order where no block holds both messages and collectives of a group.
    """
    first: dict[tuple[object, int], tuple[int, int]] = {}
    for rank in range(columns.world_size):
        created: dict[int, int] = {}
        messages, rounds, place = dict[int, int](), dict[int, int](), 0
        for at in issued(columns, rank):
            kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
            if kind == Kind.NEW_GROUP:
                created[arg], place = place, place + 1
            elif is_collective(kind):
                ginst = columns.slot_ginst[arg]
                home = created.get(columns.ginst_group[ginst]), _members(columns, ginst)
                number = rounds.get(arg, 0)
                known, other = first.setdefault(
                    ((ginst,) if home[0] is None else home, number), (messages.get(arg, 0), rank)
                )
                if known != messages.get(arg, 0):
                    return f"ranks {other} and {rank} made other numbers of messages before a round"
                rounds[arg] = number + 1
            elif _is_message(kind):
                slot = _slot(columns, kind, arg)
                messages[slot] = messages.get(slot, 0) + 1
    return None


def _members(columns: Any, ginst: int) -> tuple[int, ...]:
    return tuple(columns.slot_rank[columns.ginst_off[ginst] : columns.ginst_off[ginst + 1]])


def _is_message(kind: int) -> bool:
    return is_point_to_point(kind) and kind != Kind.PROBE


def _slot(columns: Any, kind: int, channel: int) -> int:
    return int((columns.chan_src_slot if kind in SEND_KINDS else columns.chan_dst_slot)[channel])


def _blocks(columns: Any, rank: int) -> list[list[int]]:
    """Return the calls of every outermost block of a rank."""
    found, depth = list[list[int]](), 0
    for at in issued(columns, rank):
        kind = columns.op[at] & KIND_MASK
        if not columns.op[at] & MEMBER and kind in _BEGINS:
            if not depth:
                found.append([])
            depth += 1
        elif not columns.op[at] & MEMBER and kind in _ENDS:
            depth -= 1
        elif depth:
            found[-1].append(at)
    return found


def _compared(columns: Any) -> set[tuple[int, ...]]:
    """Return the members of groups on which two ranks make collectives: one has no other number.

    By members, since a group that `new_group` makes is another one on each rank.
    """
    ranks: dict[tuple[int, ...], set[int]] = {}
    for rank in range(columns.world_size):
        for at in issued(columns, rank):
            kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
            if is_collective(kind):
                ranks.setdefault(_members(columns, columns.slot_ginst[arg]), set()).add(rank)
    return {members for members, found in ranks.items() if len(found) > 1}


def _both(columns: Any, calls: Iterable[int], compared: set[tuple[int, ...]]) -> bool:
    rounds, messages = set[int](), set[int]()
    for at in calls:
        kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
        if is_collective(kind) and _members(columns, columns.slot_ginst[arg]) in compared:
            rounds.add(arg)
        elif _is_message(kind):
            messages.add(_slot(columns, kind, arg))
    return bool(rounds & messages - {NONE})
