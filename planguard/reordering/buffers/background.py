"""Negotiated members beside other calls, where the place of a launch plays a part.

A member is launched in the background once all ranks have submitted it, in an order that all share,
on a communicator that nobody else uses (ADR 0036). So, as plans without these buffers:

* **One queue per device or communicator, and no call that holds a host up** (``nccl`` and its
  kind). A host stands still only where it waits for a member that another rank has not submitted.
  Where no two of them can do so for each other, the executions are these: one order of all members,
  and on each rank every launch anywhere between what comes before the member is submitted and the
  wait for it. Any such choice is possible: of the launches that still wait for a rank, the first in
  the order waits for none that itself waits. Each order is a plan in which the calls from a member
  to its wait are a block of open order, and the members in it a chain.
* **A barrier in front of a collective** (``gloo-detail``). A launch needs nobody but the background
  threads, and these go through one order; so a wait for a member ends when all ranks have submitted
  it, and nothing else is held up. That is what a message to each other member of the group says,
  which has no barrier in front. A finding that would speak of these messages is not shown.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.ledger import apply_ledger
from planguard.execution.findings.reason import TABLE, Kind
from planguard.plan.vocabulary import QUEUED
from planguard.reordering.buffers.findings import moved
from planguard.reordering.buffers.launched import in_full, launched, taken, told
from planguard.reordering.buffers.merge import EveryRankError
from planguard.reordering.buffers.rank import extensions
from planguard.semantics.model import Family
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planguard.execution.findings.reason import UndecidedError
    from planguard.plan.plan import Plan
    from planguard.reordering.buffers.launched import Member, Program
    from planguard.reordering.buffers.ranks import Ranks
    from planguard.semantics.model import ExecutionModel
    from planguard.verdict import Finding, Verdict

ORDERS = 24
"""Most orders of members that are decided."""
_MOST = 8
"""Members of a group that tell each other by messages: their number grows with the square."""
_SHOWN = 3
"""Members that a note names."""


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
    is_queued = rules.family is Family.DEVICE and not rules.lazy_init
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
        fixed = iter([in_full(ranks, messages)])
    else:
        if not _holds_nobody_up(programs):
            raise refused
        fixed = (
            in_full(ranks, [launched(one, order, groups, refused) for one in programs])
            for order in _orders(programs)
        )
    # A background thread of two groups has no order that both share: then not every choice of
    # places happens.
    is_shown = is_held or all(len({group for group, _ in one.members}) < 2 for one in programs)
    found: list[Verdict] = []
    for one in fixed:
        if len(found) == ORDERS:
            raise refused
        verdict = moved(plan, one, decide(one.plan))
        found.append(verdict)
        late = any(finding.code == TABLE[Kind.TIME].code for finding in verdict.findings)
        if verdict.unknown and late:
            return verdict  # a budget, or a larger one, decides it
        if verdict.unknown or verdict.outcome is not found[0].outcome:
            raise refused  # which orders come up is not stated: all have to say the same
        if not (is_shown or verdict.safe) or (is_held and _speaks_of(verdict, programs)):
            raise refused
        if verdict.outcome is Outcome.POTENTIAL_DEADLOCK:
            break  # it happens, and so does a run that ends, whatever other orders there are
    return _said(found, programs)


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


def _holds_nobody_up(programs: Sequence[Program]) -> bool:
    """Whether no call holds a host up, but for waits for members that cannot do so in a circle."""
    for program in programs:
        if program.kept or not {one.fields["op"] for one in program.elements} <= QUEUED:
            return False
    try:
        TopologicalSorter(_before(programs, always=False)).prepare()
    except CycleError:
        return False
    return True


def _before(programs: Sequence[Program], *, always: bool) -> dict[Any, set[Any]]:
    """Return what is waited for before a member is submitted: always, or in some order.

    A rank and the number of a part stand for all that the rank has waited for by the end of it.
    """
    found: dict[Any, set[Any]] = {}
    for rank, program in enumerate(programs):
        submitted: dict[int, list[int]] = {}
        for member, at in program.members.items():
            part = program.elements[at].part
            submitted.setdefault(part, []).append(at)
            found.setdefault(member, set()).add((rank, part - 1))
        for part in range(program.elements[-1].part if program.elements else 0):
            found[rank, part] = {(rank, part - 1)} if part else set()
        for at, one in enumerate(program.elements):
            for other in one.waits:
                first = program.elements[other].member
                found.setdefault((rank, one.part), set()).add(first)
                for place in submitted.get(one.part, ()):
                    later = program.elements[place]
                    holds = at in later.below if always else place not in one.below
                    if holds and place != other:
                        found[later.member].add(first)
    return found


def _orders(programs: Sequence[Program]) -> Iterator[tuple[Member, ...]]:
    """Yield the orders in which the members of each group may be launched."""
    before = _before(programs, always=True)
    members = list(dict.fromkeys(name for one in programs for name in one.members))
    place = {name: at for at, name in enumerate(members)}
    masks: dict[Any, int] = {}
    for node in TopologicalSorter(before).static_order():
        mask = 0
        for first in before.get(node, ()):
            mask |= masks[first] | (1 << place[first] if first in place else 0)
        masks[node] = mask
    each: list[list[tuple[Member, ...]]] = []
    for group in dict.fromkeys(group for group, _ in members):
        mine = [name for name in members if name[0] == group]
        below = [
            sum(1 << at for at, first in enumerate(mine) if masks[name] >> place[first] & 1)
            for name in mine
        ]
        some = itertools.islice(extensions(below), ORDERS + 1)
        each.append([tuple(mine[at] for at in order) for order in some])
    for chosen in itertools.product(*each):
        yield tuple(itertools.chain.from_iterable(chosen))
