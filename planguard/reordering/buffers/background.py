"""Negotiated members beside other calls, where the place of a launch plays a part.

A member is launched in the background once all ranks have submitted it, in an order that all share,
on a communicator that nobody else uses (ADR 0036). So, as plans without these buffers:

* **One queue per device or communicator, and no call that holds a host up** (models of devices).
  A host stands still only where it waits for a member that another rank has not submitted.
  Where no two of them can do so for each other, the executions are these: one order of all members,
  and on each rank every launch anywhere between what comes before the member is submitted and the
  wait for it. Any such choice is possible: of the launches that still wait for a rank, the first in
  the order waits for none that itself waits. Each order is a plan in which the calls from a member
  to its wait are a block of open order, and the members in it a chain. A host that makes a
  communicator stands there until all of its members are at it: like one that waits for a member
  that it submits there. What is made before a rank submits a member comes before its launches.
* **A barrier in front of a collective** (``gloo-detail``). A launch needs nobody but the background
  threads, and these go through one order; so a wait for a member ends when all ranks have submitted
  it, and nothing else is held up. That is what a message to each other member of the group says,
  which has no barrier in front. A finding that would speak of these messages is not shown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.ledger import apply_ledger
from planguard.execution.findings.reason import TABLE, Kind
from planguard.plan.fixed import AT
from planguard.plan.vocabulary import QUEUED
from planguard.reordering.buffers.findings import moved, standing
from planguard.reordering.buffers.launched import in_full, launched, taken, told
from planguard.reordering.buffers.merge import EveryRankError
from planguard.reordering.buffers.policies import own_of
from planguard.reordering.buffers.stalled import stalled
from planguard.reordering.buffers.waited import ORDERS, holds_nobody_up, orders_of, waited
from planguard.semantics.model import Family
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planguard.execution.findings.reason import UndecidedError
    from planguard.plan.fixed import FixedPlan
    from planguard.plan.plan import Plan
    from planguard.reordering.buffers.launched import Member, Program
    from planguard.reordering.buffers.ranks import Ranks
    from planguard.reordering.buffers.stalled import Stall
    from planguard.reordering.buffers.waited import Waited
    from planguard.reordering.threads.created import Communicator
    from planguard.semantics.model import ExecutionModel
    from planguard.verdict import Finding, Verdict

_MOST = 8
"""Members of a group that tell each other by messages: their number grows with the square."""
_SHOWN = 3
"""Members that a note names."""
_STANDS = QUEUED | {"init"}
"""What holds a host up, if anything does, until others come to it, whatever devices do."""


def beside(
    ranks: Ranks,
    plan: Plan,
    rules: ExecutionModel,
    decide: Callable[[Plan], Verdict],
    refused: UndecidedError,
) -> Verdict:
    """Decide a plan whose negotiated members are launched in the background.

    Args:
        ranks: Its ranks, each looked at alone.
        plan: The plan.
        rules: The execution model.
        decide: Decides a plan without the negotiated buffers; others may be left.
        refused: Why the plan is not decided without regard to the background.

    Raises:
        UndecidedError: ``refused``, where this does not decide it either.
        EveryRankError: Ranks stand for others of their program.
    """
    is_queued = rules.family is Family.DEVICE
    is_held = rules.family is Family.HOST and rules.pre_barrier and not rules.one_lock
    negotiated = [one for one in ranks.buffers if one.coordination == "negotiated"]
    if not negotiated or not (is_queued or is_held):
        raise refused
    if not ranks.is_apart:
        raise EveryRankError  # groups and peers are those of the rank that stands for others
    programs = [taken(ranks, rank, negotiated, refused) for rank in range(len(ranks))]
    groups = _groups(ranks, programs, refused)
    if is_held:
        if any(not 1 < len(mine) <= _MOST for mine in groups.values()):
            raise refused
        _refuse_other_sizes(programs, refused)
        messages = [told(one, rank, groups, refused) for rank, one in enumerate(programs)]
        held = _verdicts(plan, iter([in_full(ranks, messages)]), decide, refused)
        if _speaks_of(held[0], programs):
            raise refused
        return _said(held, programs)

    return _queued(ranks, plan, rules, decide, refused, programs, groups)


def _queued(
    ranks: Ranks,
    plan: Plan,
    rules: ExecutionModel,
    decide: Callable[[Plan], Verdict],
    refused: UndecidedError,
    programs: list[Program],
    groups: dict[str, list[int]],
) -> Verdict:
    """Decide a plan whose launches go to a queue of the device.

    Raises:
        UndecidedError: ``refused``.
    """

    def launches(
        programs: Sequence[Program], sure: Waited, wanted: Outcome | None = None
    ) -> list[Verdict]:
        fixed = (
            in_full(ranks, [_launched(one, order, groups, rules, refused) for one in programs])
            for order in orders_of(sure)
        )
        return _verdicts(plan, fixed, decide, refused, wanted)

    if any(one.kept for one in programs) or not _ops(programs) <= _STANDS:
        raise refused  # how far hosts get is not known here
    programs = [one.with_creations(rank, rules, refused) for rank, one in enumerate(programs)]
    if (stall := stalled(programs, ranks.members)) is not None:
        fixed = (
            in_full(ranks, _standing(stall, order, groups, rules, refused))
            for order in orders_of(waited(stall.programs, always=True))
        )
        return _of_stall(_verdicts(plan, fixed, decide, refused), stall, refused)
    if not holds_nobody_up(ranks, programs):
        raise refused
    sure = waited(programs, always=True)
    found = launches(programs, sure)
    if found[0].safe or found[0].unknown:
        return _said(found, programs)
    if any(len({group for group, _ in one.members}) > 1 for one in programs):
        raise refused  # no order that two of its groups share: not every choice of places happens
    if _is_apart(programs, sure):
        return _said(found, programs)
    # What a host makes before a member in some orders only is not kept apart from it there, so
    # some of them do not happen. These do; where they say the same, that is what all say.
    for first in (True, False):
        fewer = [one.created(first=first) for one in programs]
        sure = waited(fewer, always=True)
        if not _is_apart(fewer, sure):
            continue
        if not holds_nobody_up(ranks, fewer):
            raise refused
        if apart := launches(fewer, sure, found[0].outcome):
            return _said(apart, fewer)
    raise refused


def _ops(programs: Sequence[Program]) -> set[str]:
    return {one.fields["op"] for program in programs for one in program.elements}


def _standing(
    stall: Stall,
    order: Sequence[tuple[Member, frozenset[Communicator]]],
    groups: dict[str, list[int]],
    rules: ExecutionModel,
    refused: UndecidedError,
) -> list[tuple[list[Any], dict[str, list[int]]]]:
    """Return programs with launches, in which hosts stand in the end."""
    found = []
    for program, end in zip(stall.programs, stall.ends, strict=True):
        actions, more = _launched(program, order, groups, rules, refused)
        found.append(([*actions, *end], more | stall.groups))
    return found


def _of_stall(found: Sequence[Verdict], stall: Stall, refused: UndecidedError) -> Verdict:
    """Return the verdict on hosts that stand for ever: nothing disagrees in any order.

    Raises:
        UndecidedError: ``refused``: something may disagree.
    """
    if found[0].unknown or found[0].outcome is not Outcome.DEADLOCK:
        raise refused
    return standing(_said(found, stall.programs), stall.waits)


def _is_apart(programs: Sequence[Program], sure: Waited) -> bool:
    """Whether what is made before a member in some order is made before it in all."""
    if not any(one.creations for one in programs):
        return True
    return sure.made == waited(programs, always=False).made


def _verdicts(
    plan: Plan,
    fixed: Iterator[FixedPlan],
    decide: Callable[[Plan], Verdict],
    refused: UndecidedError,
    wanted: Outcome | None = None,
) -> list[Verdict]:
    """Return the verdicts on the orders of members, which say the same.

    There are none where the first of them does not say what is wanted.

    Raises:
        UndecidedError: ``refused``: one is not decided, or they do not.
    """
    found: list[Verdict] = []
    for one in fixed:
        if len(found) == ORDERS:
            raise refused
        verdict = moved(plan, one, decide(one.plan))
        if wanted is not None and verdict.outcome is not wanted:
            return []
        found.append(verdict)
        late = any(finding.code == TABLE[Kind.TIME].code for finding in verdict.findings)
        if verdict.unknown and late:
            return [verdict]  # a budget, or a larger one, decides it
        if verdict.unknown or verdict.outcome is not found[0].outcome:
            raise refused  # which orders come up is not stated: all have to say the same
        if verdict.outcome is Outcome.POTENTIAL_DEADLOCK:
            break  # it happens, and so does a run that ends, whatever other orders there are
    return found


def _launched(
    program: Program,
    order: Sequence[tuple[Member, frozenset[Communicator]]],
    groups: dict[str, list[int]],
    rules: ExecutionModel,
    refused: UndecidedError,
) -> tuple[list[Any], dict[str, list[int]]]:
    """Return a program with launches; the background has its communicators from the beginning."""
    actions, more = launched(program, order, groups, refused)
    if not rules.lazy_init:
        return actions, more
    first = {group: program.elements[at].at for (group, _), at in program.members.items()}
    created = [{"op": "init", "group": own_of(group), AT: at} for group in groups
               if (at := first.get(group)) is not None]  # fmt: skip
    return [*created, *actions], more


def _said(found: Sequence[Verdict], programs: Sequence[Program]) -> Verdict:
    """Return what the verdicts on all orders say, which say the same."""
    verdict = found[0]
    proved = (*verdict.proved, "fusion-order") if verdict.safe else verdict.proved
    assumptions = tuple(dict.fromkeys((*verdict.assumptions, "coordinated-fusion")))
    schedules = sum(one.evidence.schedules for one in found)
    evidence = replace(verdict.evidence, schedules=schedules)
    findings = tuple(_with_launches(finding, programs) for finding in verdict.findings)
    return apply_ledger(
        replace(
            verdict, proved=proved, assumptions=assumptions, evidence=evidence, findings=findings
        )
    )


def _with_launches(finding: Finding, programs: Sequence[Program]) -> Finding:
    """Say of members that a finding speaks of when they are launched, and what to do then."""
    names = {
        (rank, one.at): one.member[1]
        for rank, program in enumerate(programs)
        for one in program.elements
        if one.member is not None
    }
    mine = sorted({names[at] for at in _places(finding) if at in names})
    if not mine or not finding.cycle:
        return finding
    said = ", ".join(mine[:_SHOWN]) + (", ..." if len(mine) > _SHOWN else "")
    note = f"launched in the background, anywhere up to the wait for it: {said}"
    help_ = "wait for the member before the other call is issued, on all these ranks"
    return replace(finding, notes=(*finding.notes, note), help=help_)


def _speaks_of(verdict: Verdict, programs: Sequence[Program]) -> bool:
    """Whether a finding speaks of a member, or of a wait for one: it would say messages."""
    mine = {
        (rank, one.at)
        for rank, program in enumerate(programs)
        for one in program.elements
        if one.member is not None or one.waits
    }
    return any(not mine.isdisjoint(_places(finding)) for finding in verdict.findings)


def _places(finding: Finding) -> Iterator[tuple[int, int]]:
    edges = [at for edge in finding.cycle for at in (edge.at, edge.waits_for, edge.behind)]
    for at in (finding.primary, *finding.related_actions, *edges):
        if at is not None:
            yield at.rank, at.action
    if finding.witness is not None:
        yield from finding.witness.actions
        yield from finding.witness.blocked


def _groups(
    ranks: Ranks, programs: Sequence[Program], refused: UndecidedError
) -> dict[str, list[int]]:
    """Return the groups that negotiate; every rank of one has submitted all of its members."""
    groups = dict.fromkeys(group for one in programs for group, _ in one.members)
    found = {group: list(ranks.members[group]) for group in groups}
    for group, mine in found.items():
        names = {frozenset(m for m in programs[rank].members if m[0] == group) for rank in mine}
        if len(names) > 1:
            raise refused
    return found


def _refuse_other_sizes(programs: Sequence[Program], refused: UndecidedError) -> None:
    known: dict[Member, tuple[Any, ...]] = {}
    for program in programs:
        for member, at in program.members.items():
            fields = program.elements[at].fields
            said = tuple(
                fields.get(name) for name in ("op", "dtype", "reduce_op", "bytes", "count")
            )
            if known.setdefault(member, said) != said:
                raise refused
