"""Findings about one order -> findings about the plan that leaves the order open."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.catalog import lookup
from planguard.execution.findings.help import WHEN
from planguard.plan.fixed import Shown
from planguard.reordering.join import says_disagreement
from planguard.verdict import Met

if TYPE_CHECKING:
    from planguard.plan.fixed import FixedPlan
    from planguard.plan.plan import Plan
    from planguard.reordering.explorer import Explored
    from planguard.verdict import CycleEdge, Finding, Location, Verdict, Witness


def translate(plan: Plan, explored: Explored, verdict: Verdict) -> Verdict:
    """Return the verdict of one order as the verdict over all orders.

    Args:
        plan: The plan with its open order.
        explored: What all orders say, and the order that ``verdict`` is about.
        verdict: The verdict on that order.
    """
    ordered = explored.ordered
    assert ordered is not None  # noqa: S101  only decided explorations come here
    several = explored.reordered
    findings = tuple(
        _finding(plan, ordered, finding, reordered=several) for finding in verdict.findings
    )
    exhaustive = "explorer" in explored.route
    engine = "smt" if "smt" in explored.route else "fast"
    evidence = replace(
        verdict.evidence,
        kind="exhaustive" if exhaustive else "proof",
        route=explored.route,
        engine="explorer" if exhaustive else engine,
        schedules=explored.schedules,
        z3_ms=explored.z3_ms,
    )
    return replace(
        verdict,
        outcome=explored.outcome,
        findings=findings,
        models={verdict.model: explored.outcome},
        evidence=evidence,
        approximations=plan.approximations,
        safe_iff=() if several else verdict.safe_iff,
    )


def _finding(plan: Plan, ordered: FixedPlan, finding: Finding, *, reordered: bool) -> Finding:
    moved = replace(
        finding,
        primary=_location(plan, ordered, finding.primary),
        related_actions=tuple(
            at for old in finding.related_actions if (at := _location(plan, ordered, old))
        ),
        cycle=tuple(_edge(plan, ordered, edge) for edge in finding.cycle),
        witness=_witness(plan, ordered, finding.witness),
    )
    if not reordered:
        return moved
    if says_disagreement(finding):
        entry = lookup("PG102")
        moved = replace(
            moved,
            code=entry.number,
            name=entry.name,
            related=tuple(sorted({*finding.related, finding.code})),
            message=WHEN["PG102"] + finding.message,
            help="order the actions of this group the same way on all members",
        )
    if finding.cycle and finding.help:
        # The advice for one order swaps actions of a program; here the program leaves it open.
        moved = replace(moved, help="fix their order in the block, the same way on all these ranks")
    return replace(moved, certainty="some-execution")


def back(plan: Plan, ordered: FixedPlan, finding: Finding) -> Finding:
    """Return a finding about a rewritten plan with the places of the plan it was made from."""
    return _finding(plan, ordered, finding, reordered=False)


def _location(plan: Plan, ordered: FixedPlan, at: Location | None) -> Location | None:
    return None if at is None else plan.location(at.rank, ordered.origin[at.rank][at.action])


def _edge(plan: Plan, ordered: FixedPlan, edge: CycleEdge) -> CycleEdge:
    at = _location(plan, ordered, edge.at)
    assert at is not None  # noqa: S101  an edge starts somewhere
    return replace(
        edge,
        at=at,
        waits_for=_location(plan, ordered, edge.waits_for),
        behind=_location(plan, ordered, edge.behind),
    )


def _witness(plan: Plan, ordered: FixedPlan, witness: Witness | None) -> Witness | None:
    if witness is None:
        return None

    def place(rank: int, action: int) -> tuple[int, int]:
        return rank, ordered.origin[rank][action]

    pairs = [item.split(".") for item in witness.encoded.split("/") if item]
    mapped = [place(int(rank), int(action)) for rank, action in pairs]
    encoded = "/".join(f"{rank}.{action}" for rank, action in mapped)
    return replace(
        witness,
        id=hashlib.sha256(encoded.encode()).hexdigest()[:4],
        encoded=encoded,
        steps=tuple(
            replace(step, action=place(step.rank, step.action)[1]) for step in witness.steps
        ),
        blocked=tuple(place(*at) for at in witness.blocked),
        actions=tuple(sorted(place(*at) for at in witness.actions)),
        matches=tuple(Met(place(*one.receive), place(*one.send)) for one in witness.matches),
        flushes=tuple(
            replace(one, actions=tuple(place(one.rank, at)[1] for at in one.actions))
            for one in witness.flushes
        ),
        fixed=Shown.of(witness, ordered, plan),
    )
