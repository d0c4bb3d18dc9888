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
  which has no barrier in front. A finding that would speak of these messages is not shown. Sizes
  of a member are compared by its name, where some execution comes to its end.

Where members are waited for at once, hosts meet there (``at_once``). A member that some rank never
submits is launched by nobody.

Above 400 lines: both ways end in the same plans, and in what is said of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.ledger import apply_ledger
from planguard.execution.findings.reason import TABLE, Kind, UndecidedError
from planguard.plan.fixed import AT
from planguard.plan.vocabulary import QUEUED
from planguard.reordering.buffers.findings import moved, standing
from planguard.reordering.buffers.members import handles_of
from planguard.reordering.buffers.merge import EveryRankError
from planguard.reordering.buffers.negotiated.at_once import at_once
from planguard.reordering.buffers.negotiated.in_thread import in_threads
from planguard.reordering.buffers.negotiated.launched import (
    in_full,
    launched,
    launched_alone,
    taken,
    told,
)
from planguard.reordering.buffers.negotiated.never import waits_for_ever
from planguard.reordering.buffers.negotiated.stalled import stalled
from planguard.reordering.buffers.negotiated.waited import (
    ORDERS,
    holds_nobody_up,
    orders_of,
    waited,
)
from planguard.reordering.buffers.policies import own_of
from planguard.semantics.model import Family
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from planguard.plan.fixed import FixedPlan
    from planguard.plan.plan import Plan
    from planguard.reordering.buffers.negotiated.launched import Member, Program
    from planguard.reordering.buffers.negotiated.stalled import Stall
    from planguard.reordering.buffers.negotiated.waited import Waited
    from planguard.reordering.buffers.ranks import Ranks
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
        OrderError: What stands for members is no valid program.
        EveryRankError: Ranks stand for others of their program.
    """
    is_queued = rules.family is Family.DEVICE
    is_held = rules.family is Family.HOST and rules.pre_barrier and not rules.one_lock
    negotiated = [one for one in ranks.buffers if one.coordination == "negotiated"]
    if not negotiated:
        raise refused
    if not ranks.is_apart:
        raise EveryRankError  # groups and peers are those of the rank that stands for others
    if (stuck := waits_for_ever(ranks, plan, negotiated)) is not None:
        verdict = moved(plan, stuck[0], decide(stuck[0].plan))
        if verdict.outcome is Outcome.DEADLOCK:
            return standing(_said([verdict], []), stuck[1])
    if not (is_queued or is_held):
        raise refused
    if (met := at_once(ranks, plan, rules, negotiated, refused)) is not None:
        return standing(_said([moved(plan, met[0], decide(met[0].plan))], []), met[1])
    programs = [taken(ranks, rank, negotiated, refused) for rank in range(len(ranks))]
    lost = _never_launched(ranks, programs)
    programs = [one.without(lost) for one in programs]
    groups = {group: ranks.members[group] for one in programs for group, _ in one.members}
    if is_held:
        return _held(ranks, plan, programs, groups, decide, refused)
    try:
        return _queued(ranks, plan, rules, programs, (lost, groups), decide, refused)
    except UndecidedError:
        pass  # with launches in blocks; but members in a row may be launched by a thread
    fixed = in_threads(ranks, plan, rules, negotiated, refused)
    found = _said(_verdicts(plan, fixed, decide, refused, is_last=True), [])
    stands = {
        (rank, one.elements[at].at): f"the members of {group}"
        for rank, one in enumerate(programs)
        for (group, _), at in one.members.items()
    }
    return standing(found, stands)


def _queued(
    ranks: Ranks,
    plan: Plan,
    rules: ExecutionModel,
    programs: list[Program],
    used: tuple[set[Member], dict[str, list[int]]],
    decide: Callable[[Plan], Verdict],
    refused: UndecidedError,
) -> Verdict:
    """Decide a plan whose calls go to a queue of the device, with launches in blocks.

    Args:
        ranks: Its ranks.
        plan: The plan.
        rules: The execution model.
        programs: What the ranks do.
        used: The members that some rank never submits, and the groups that negotiate.
        decide: Decides a plan without the negotiated buffers.
        refused: Why the plan is not decided without regard to the background.

    Raises:
        UndecidedError: ``refused``.
    """
    lost, groups = used

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
    if any(not lost.isdisjoint(one.members) for one in programs):
        raise refused  # a host stands for one of them, in some order at least
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
    *,
    is_last: bool = False,
) -> list[Verdict]:
    """Return the verdicts on the orders of members, which say the same.

    There are none where the first of them does not say what is wanted. Where nothing else is asked
    after them (``is_last``), one that is not decided says why.

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
        if verdict.unknown and (late or is_last):
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


def _speaks_of(
    verdict: Verdict, programs: Sequence[Program], waits: Mapping[tuple[int, int], str]
) -> bool:
    """Whether a finding would speak of messages: but of hosts that wait for members it need not."""
    mine = {
        (rank, one.at)
        for rank, program in enumerate(programs)
        for one in program.elements
        if one.member is not None or one.waits
    }
    return any(
        not mine.isdisjoint(_places(finding))
        and (finding.subkind is None or not mine.isdisjoint(_waiting(finding) - waits.keys()))
        for finding in verdict.findings
    )


def _waiting(finding: Finding) -> set[tuple[int, int]]:
    """Return where hosts stand that a finding speaks of."""
    stand = [edge.at for edge in finding.cycle]
    if not stand and finding.primary is not None:
        stand = [finding.primary]
    return {(at.rank, at.action) for at in stand}


def _places(finding: Finding) -> Iterator[tuple[int, int]]:
    edges = [at for edge in finding.cycle for at in (edge.at, edge.waits_for, edge.behind)]
    for at in (finding.primary, *finding.related_actions, *edges):
        if at is not None:
            yield at.rank, at.action
    if finding.witness is not None:
        yield from finding.witness.actions
        yield from finding.witness.blocked


def _never_launched(ranks: Ranks, programs: Sequence[Program]) -> set[Member]:
    """Return the members that some rank of their group never submits."""
    found: set[Member] = set()
    for group in dict.fromkeys(group for one in programs for group, _ in one.members):
        names: list[set[Member]] = [
            {name for name in programs[rank].members if name[0] == group}
            for rank in ranks.members[group]
        ]
        shared = names[0].intersection(*names[1:])
        found |= names[0].union(*names[1:]) - shared
    return found


def _held(
    ranks: Ranks,
    plan: Plan,
    programs: list[Program],
    groups: dict[str, list[int]],
    decide: Callable[[Plan], Verdict],
    refused: UndecidedError,
) -> Verdict:
    """Decide a plan in which a wait for a member ends when all ranks have submitted it.

    Raises:
        UndecidedError: ``refused``, where what is found would speak of messages.
    """
    if any(not 1 < len(mine) <= _MOST for mine in groups.values()):
        raise refused
    messages = [told(one, rank, groups, refused) for rank, one in enumerate(programs)]
    held = _verdicts(plan, iter([in_full(ranks, messages)]), decide, refused)
    uneven = _uneven(programs)
    if uneven and not held[0].unknown and held[0].outcome is not Outcome.DEADLOCK:
        # Some execution comes to its end, with all members launched.
        members = in_full(ranks, [launched_alone(one, uneven, groups) for one in programs])
        alone = moved(plan, members, decide(members.plan))
        if alone.outcome is Outcome.MISMATCH:
            return _said([alone], programs)
        if not alone.safe:  # else they are written in another way
            raise refused
    waits = _waits(programs)
    if _speaks_of(held[0], programs, waits):
        raise refused
    return standing(_said(held, programs), waits)


def _waits(programs: Sequence[Program]) -> dict[tuple[int, int], str]:
    """Return where hosts wait for members and for nothing else, to what they wait for."""
    found: dict[tuple[int, int], str] = {}
    for rank, program in enumerate(programs):
        for one in program.elements:
            names = [program.elements[at].member for at in one.waits]
            if names and len(names) == len(handles_of(one.fields)):
                found[rank, one.at] = ", ".join(name[1] for name in names if name is not None)
    return found


def _uneven(programs: Sequence[Program]) -> set[Member]:
    """Return the members that two ranks submit with other sizes or types."""
    known: dict[Member, tuple[Any, ...]] = {}
    found: set[Member] = set()
    for program in programs:
        for member, at in program.members.items():
            fields = program.elements[at].fields
            said = tuple(
                fields.get(name) for name in ("op", "dtype", "reduce_op", "bytes", "count")
            )
            if known.setdefault(member, said) != said:
                found.add(member)
    return found
