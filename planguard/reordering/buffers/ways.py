"""All that ranks may agree on, decided one by one: what do the verdicts say together?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.execution.findings.reason import UndecidedError, out_of_time
from planguard.reordering.buffers.findings import in_one_agreement
from planguard.reordering.cases.together import is_empty, open_verdict
from planguard.reordering.join import Case, case_of, join, left_open, mixes
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.options import Deadline
    from planguard.plan.plan import Plan
    from planguard.reordering.buffers.agreement import Agreements
    from planguard.reordering.buffers.policies import Agreed
    from planguard.verdict import Verdict

_SHOWN = 4
"""Most buckets of an agreed order that a note names."""


def over_ways(
    plan: Plan,
    model: str,
    agreements: Agreements,
    decide: Callable[[dict[str, Agreed]], Verdict],
    deadline: Deadline,
) -> Verdict:
    """Return the verdict over all that the ranks may agree on.

    Args:
        plan: The plan.
        model: Name of the execution model.
        agreements: What they may agree on.
        decide: Decides the plan for one agreement.
        deadline: Bounds the work.

    Raises:
        UndecidedError: The plan does not state which agreements there are, and they differ.
    """
    if len(agreements.ways) == 1:
        return decide(agreements.ways[0])
    found: list[Verdict] = []
    for way in agreements.ways:
        if deadline.expired():
            raise UndecidedError(out_of_time(f" after {len(found):,} orders that rank 0 may send"))
        try:
            found.append(decide(way))
        except UndecidedError as undecided:
            found.append(open_verdict(plan, model, undecided.reason))
        if agreements.is_stated and _together(found) is Outcome.MISMATCH:
            break  # whatever else may be agreed on, it stays one (``join``)
    outcome = _together(found)
    if not agreements.is_stated and len({_case(verdict).outcome for verdict in found}) > 1:
        names = ", ".join(sorted(agreements.several))
        raise UndecidedError(
            f"the order in which rank 0 fills fused buffer {names} is not in the plan: a wait "
            "before all of it is ready, a pool, or members that rank 0 never waits for, leave it "
            "open; fixed membership states it"
        )
    if outcome is Outcome.UNKNOWN:
        return next((one for one in found if one.unknown and not is_empty(one)), found[0])
    return _shown(agreements, found, outcome)


def _case(verdict: Verdict) -> Case:
    """Return what a verdict says; where nothing matches anything, nothing goes wrong."""
    return Case(Outcome.SAFE) if is_empty(verdict) else case_of(verdict)


def _together(found: Sequence[Verdict]) -> Outcome:
    if all(map(is_empty, found)):
        return Outcome.UNKNOWN
    return join(map(_case, found))


def _shown(agreements: Agreements, found: Sequence[Verdict], outcome: Outcome) -> Verdict:
    """Return the verdict that shows an outcome, as one of all of them."""
    shows = [at for at, one in enumerate(found) if one.outcome is outcome]
    shows.sort(key=lambda at: not mixes(found[at]))
    if not shows and outcome is Outcome.MISMATCH:
        shows = [at for at, one in enumerate(found) if mixes(one)]
    at = shows[0] if shows else max(range(len(found)), key=lambda at: _severity(found[at]))
    verdict = found[at]
    undecided = any(one.unknown and not is_empty(one) for one in found)
    if outcome not in {Outcome.SAFE, Outcome.DEADLOCK}:
        verdict = replace(in_one_agreement(verdict, _said(agreements, at)), safe_iff=())
    evidence = replace(
        verdict.evidence,
        kind="execution" if undecided else "exhaustive",
        route=tuple(dict.fromkeys((*verdict.evidence.route, "explorer"))),
        engine="explorer",
        schedules=sum(max(one.evidence.schedules, 1) for one in found),
        states=sum(one.evidence.states for one in found),
        z3_ms=sum(one.evidence.z3_ms for one in found),
    )
    if undecided and outcome is Outcome.POTENTIAL_DEADLOCK:
        verdict = replace(verdict, complete=False, reasons=left_open([verdict, *found]))
    models = {verdict.model: outcome}
    return replace(verdict, outcome=outcome, models=models, evidence=evidence)


def _severity(verdict: Verdict) -> int:
    return _case(verdict).outcome.severity


def _said(agreements: Agreements, at: int) -> str:
    """Return the order of the buffers in which agreements differ, in words."""
    way = agreements.ways[at]
    orders = []
    for name in sorted(agreements.several):
        buckets = ["{" + ", ".join(sorted(one)) + "}" for one in way[name].buckets]
        more = ", ..." if len(buckets) > _SHOWN else ""
        orders.append(f"{', '.join(buckets[:_SHOWN])}{more} of fused buffer {name}")
    return f"where rank 0 sends the order {' and '.join(orders)}"
