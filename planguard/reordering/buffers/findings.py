"""Findings about merged flushes -> findings about the members of fused buffers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.catalog import lookup
from planguard.execution.findings.cause import make_finding
from planguard.reordering.cases.translate import back
from planguard.reordering.join import says_disagreement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.plan.fixed import FixedPlan
    from planguard.plan.plan import Plan
    from planguard.reordering.blocks import Leaf
    from planguard.reordering.buffers.members import Buffer
    from planguard.reordering.buffers.rank import FusedRank
    from planguard.reordering.buffers.ranks import Ranks
    from planguard.verdict import CycleEdge, Finding, Flushed, Location, Verdict

_SHOWN = 3


def moved(plan: Plan, ordered: FixedPlan, verdict: Verdict) -> Verdict:
    """Return the verdict on a merged plan with the places of the plan it came from."""
    route = tuple(dict.fromkeys(("fusion", *verdict.evidence.route)))
    return replace(
        verdict,
        findings=tuple(back(plan, ordered, finding) for finding in verdict.findings),
        evidence=replace(verdict.evidence, kind="proof", route=route),
        approximations=plan.approximations,
        certificate=None,
        core=(),
    )


def with_flushes(verdict: Verdict, flushes: Sequence[Flushed]) -> Verdict:
    """Write into every witness what its ranks flush in the execution that it is of."""

    def of(finding: Finding) -> Finding:
        if finding.witness is None:
            return finding
        ranks = {rank for rank, _ in (*finding.witness.actions, *finding.witness.blocked)}
        mine = tuple(one for one in flushes if one.rank in ranks)
        return replace(finding, witness=replace(finding.witness, flushes=mine))

    return replace(verdict, findings=tuple(of(finding) for finding in verdict.findings))


def describe(rank: int, mine: Sequence[str], theirs: Sequence[str]) -> tuple[str, str]:
    """Return the two sequences of flushes from the first difference on."""
    same = 0
    while same < min(len(mine), len(theirs)) and mine[same] == theirs[same]:
        same += 1
    return (
        f"rank {rank} may flush {_sequence(mine, same)}",
        f"while another member of the group flushes {_sequence(theirs, same)}",
    )


def arrives(rank: FusedRank, order: Sequence[int]) -> str:
    """Return what becomes ready early in an order, against the order of the program."""
    at = next((at for at, element in enumerate(order) if element != at), None)
    if at is None:
        return "its members become ready there in the order of the program"
    early, late = (_name(rank.leaves[element]) for element in (order[at], at))
    return f"there {early} becomes ready before {late}"


def _name(leaf: Leaf) -> str:
    fields = leaf.fields
    return str(fields.get("label", fields.get("id", f"`{fields['op']}`")))


def _sequence(flushed: Sequence[str], start: int) -> str:
    shown = [_bucket(names) for names in flushed[start : start + 3]]
    more = ", ..." if len(flushed) > start + 3 else ""
    if not shown:
        return f"nothing from flush {start} on"
    return ", ".join(shown) + more + (f" from flush {start} on" if start else "")


def _bucket(label: str) -> str:
    names = label.split("+")
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return "{" + ", ".join(names[:_SHOWN]) + more + "}"


def never_submitted(ranks: Ranks, members: Mapping[str, Sequence[int]]) -> list[str]:
    """Say which ranks never submit which labeled members that another rank of the group submits."""
    said: dict[int, dict[str, None]] = {}
    for group, mine in members.items():
        own = {
            rank: dict.fromkeys(
                str(held.ready.leaves[at].fields["label"])
                for held in ranks[rank].held
                if held.buffer.group == group
                for at in range(len(held.elements))
                if "label" in held.ready.leaves[at].fields
            )
            for rank in mine
        }
        every = [label for labels in own.values() for label in labels]
        for rank, labels in own.items():
            lacks = dict.fromkeys(label for label in every if label not in labels)
            if lacks:
                said.setdefault(rank, {}).update(lacks)
    return [
        f"rank {rank} never submits {', '.join([*lacks][:_SHOWN])}"
        + (f" and {len(lacks) - _SHOWN} more" if len(lacks) > _SHOWN else "")
        for rank, lacks in sorted(said.items())
    ][:_SHOWN]


def never_flushed(
    verdict: Verdict, stuck: Sequence[tuple[int, int]], missing: Sequence[str]
) -> Verdict:
    """Say of a rank that is stuck what it waits for: a member that never leaves its buffer.

    In the played execution the wait is a receive in a group of its own from a partner that was
    picked at will. Neither is of the plan, so no word of them is left.
    """
    waits = set(stuck)

    def named(finding: Finding) -> Finding:
        at = finding.primary
        if at is None or (at.rank, at.action) not in waits:
            return finding
        return replace(
            finding,
            message=(
                f"rank {at.rank} waits for a member of a fused buffer that is never flushed: not"
                " all that leaves with it, or before it, is ready on every rank"
            ),
            ranks=(at.rank,),
            related_actions=(),
            cycle=tuple(replace(edge, why="wait-handle") for edge in finding.cycle),
            notes=tuple(missing),
            help="wait only after all members are ready, and submit the same ones on every rank",
        )

    ended = {rank for rank, _ in waits}
    kept = [
        finding
        for finding in verdict.findings
        if finding.code != "PG301" or finding.primary is None or finding.primary.rank not in ended
    ]
    return replace(verdict, findings=tuple(named(finding) for finding in kept))


_SUBMITTED = ("init", "wait-handle")


def standing(verdict: Verdict, waits: Mapping[tuple[int, int], str]) -> Verdict:
    """Say of a host that waits for a member until all ranks have submitted it that it does.

    In the played execution such a wait is the making of a communicator, or one for messages, which
    are not of the plan.

    Args:
        verdict: The verdict, with the places of the plan.
        waits: Rank and action that stand for such a wait, to what is waited for.
    """

    def named(finding: Finding) -> Finding:
        if finding.severity != "error":
            return finding
        # By the making of a communicator, or by messages.
        mine = [e for e in finding.cycle if e.why in _SUBMITTED and _place(e.at) in waits]
        at = finding.primary
        if not mine and (at is None or says_disagreement(finding) or _place(at) not in waits):
            return finding
        said = [
            f"rank {edge.at.rank} waits "
            + (
                f"for {waits[_place(edge.at)]}, which {_whoever(edge)} has not submitted"
                if edge in mine
                else f"in `{edge.at.text}`"
            )
            for edge in finding.cycle
        ]
        if not said and at is not None:
            said = [f"rank {at.rank} waits for {waits[_place(at)]}, which not every rank submits"]
        entry = lookup("PG004" if mine and len(mine) == len(finding.cycle) else finding.code)
        return replace(
            finding,
            code=entry.number,
            name=entry.name,
            message=f"hosts wait for each other: {', '.join(said)}" if mine else said[0],
            cycle=tuple(
                replace(edge, why="wait-handle") if edge in mine else edge for edge in finding.cycle
            ),
            notes=("a wait for a member ends when all ranks of its group have submitted it",),
            help="submit the members, and make what holds a host up, in one order on every rank",
        )

    return replace(verdict, findings=tuple(named(finding) for finding in verdict.findings))


def _place(at: Location) -> tuple[int, int]:
    return at.rank, at.action


def _whoever(edge: CycleEdge) -> str:
    other = edge.waits_for or edge.behind
    return "some rank" if other is None else f"rank {other.rank}"


def out_of_round(
    verdict: Verdict, buffer: Buffer, rank: int, notes: tuple[str, ...], policy: str
) -> Verdict:
    """Name the errors of an execution in which two ranks flush differently PG103."""
    entry = lookup("PG103")
    errors = [f for f in verdict.findings if f.severity == "error"]
    named = [f for f in errors if says_disagreement(f)] or errors[:1]
    findings = tuple(
        replace(
            finding,
            code=entry.number,
            name=entry.name,
            certainty="some-execution",
            message=(
                f"fused all_reduce may join the wrong round: buffer {buffer.id} can be flushed"
                f" differently on rank {rank} than on the rest of its group: {finding.message}"
            ),
            related=tuple(sorted({*finding.related, finding.code})),
            notes=(*notes, f"largest safe policy: {policy}", *finding.notes),
            help="launch fixed buckets in a fixed order, or coordinate the flush",
        )
        if finding in named
        else finding
        if finding.severity != "error"
        else replace(finding, certainty="some-execution")
        for finding in verdict.findings
    )
    return replace(verdict, findings=findings)


def in_some_order(verdict: Verdict, ranks: set[int]) -> Verdict:
    """Say of what is not about given ranks that it holds in some orders of readiness."""

    def named(finding: Finding) -> Finding:
        stands = {edge.at.rank for edge in finding.cycle} or set(finding.ranks)
        if finding.severity != "error" or (stands and stands <= ranks):
            return finding
        return replace(finding, certainty="some-execution")

    return replace(verdict, findings=tuple(named(finding) for finding in verdict.findings))


def in_one_order(verdict: Verdict, ranks: Sequence[int], notes: Sequence[str]) -> Verdict:
    """Say of a stuck state that it is one of some orders of readiness, and of which."""

    def named(finding: Finding) -> Finding:
        if finding.severity != "error":
            return finding
        return replace(
            finding,
            certainty="some-execution",
            message=f"in one order of readiness {finding.message}",
            notes=(*(f"rank {rank}: {note}" for rank, note in zip(ranks, notes, strict=True)),
                   *finding.notes),
            help="fix the order of the call and the members beside it, the same on all these ranks",
        )  # fmt: skip

    return replace(verdict, findings=tuple(named(finding) for finding in verdict.findings))


def in_one_agreement(verdict: Verdict, note: str) -> Verdict:
    """Say of the errors that they come up where ranks agree on one order of several."""
    return replace(
        verdict,
        findings=tuple(
            replace(finding, certainty="some-execution", notes=(note, *finding.notes))
            if finding.severity == "error"
            else finding
            for finding in verdict.findings
        ),
    )


def settled_layouts(verdict: Verdict, buffers: list[Buffer]) -> Verdict:
    """Name disagreements of merged collectives PG104: every rank has one layout, not the same."""
    if all(buffer.is_coordinated for buffer in buffers):
        return verdict
    members = {member for buffer in buffers for member in buffer.members}
    return replace(
        verdict, findings=tuple(_layout(finding, members) for finding in verdict.findings)
    )


def _layout(finding: Finding, members: set[str]) -> Finding:
    places = (finding.primary, *finding.related_actions)
    if not says_disagreement(finding) or not any(at and at.id in members for at in places):
        return finding
    entry = lookup("PG104")
    return replace(
        finding,
        code=entry.number,
        name=entry.name,
        message=f"fused buffers differ between ranks: {finding.message}",
        related=tuple(sorted({*finding.related, finding.code})),
        help="give all ranks the same capacity, members and flags",
    )


def unflushed(plan: Plan, verdict: Verdict, left: Sequence[tuple[int, Leaf]]) -> Verdict:
    """Add PG307 for members that are never flushed."""
    if not left:
        return verdict
    ranks = tuple(sorted({rank for rank, _ in left}))
    rank, leaf = left[0]
    names = ", ".join(dict.fromkeys(str(leaf.fields["id"]) for _, leaf in left))
    finding = make_finding(
        "PG307",
        f"a fused buffer still holds {names} at the end of rank {rank}: nothing waits for it",
        ranks=ranks,
        primary=plan.location(rank, leaf.action),
    )
    return replace(verdict, findings=(*verdict.findings, finding))
