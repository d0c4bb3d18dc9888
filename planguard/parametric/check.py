"""Decide a mesh template on its smallest equivalent instance, for one size or for every size."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard import kernels
from planguard.arguments import NAMES, OPTIONS, PLAN, arguments
from planguard.engine import check_plan, plan_info
from planguard.errors import UsageError, shorten
from planguard.execution.findings.cause import make_finding
from planguard.options import DEFAULT_MODEL, CheckOptions
from planguard.parametric.dimensions import Replication, replications
from planguard.parametric.instance import instance
from planguard.parametric.lazy import LazyVerdict
from planguard.plan.actions import KIND_MASK, Kind
from planguard.plan.code import WORDS
from planguard.verdict import Approximation, Evidence, Outcome, Stats, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.plan.plan import Plan

OPEN_ORDERS = "cut-off-for-open-orders"
"""Assumption: the cut-off also holds where orders are open. Tested, not proved."""


@arguments(plan=PLAN, dims=NAMES, options=OPTIONS)
def check_for_all(
    plan: Plan, dims: str | Iterable[str], options: CheckOptions | None = None
) -> Verdict:
    """Decide a mesh template for every size of some of its dimensions.

    The outcome is that of every size from the cut-off on (2, or more where peers step around a ring
    along the dimension); the findings are those of the instance at the cut-off. UNKNOWN if a
    dimension is not replicated.

    Args:
        plan: A plan with a mesh.
        dims: Names of dimensions.
        options: What to check; the defaults if None.

    Raises:
        UsageError: The mesh has no such dimension, or a certificate is asked for.
        PlanError: The model is unknown.
    """
    return decide_for_all(plan, dims, options)[0]


def decide_for_all(
    plan: Plan, dims: str | Iterable[str], options: CheckOptions | None = None
) -> tuple[Verdict, Plan]:
    """Do what ``check_for_all`` does, and return the instance that its findings speak of as well.

    Raises:
        UsageError: The mesh has no such dimension, or a certificate is asked for.
        PlanError: The model is unknown.
    """
    started = time.perf_counter()
    options = options or CheckOptions()
    asked: tuple[Any, ...] = (dims,) if isinstance(dims, str) else tuple(dims)
    known = replications(plan)
    for name in asked:
        if not isinstance(name, str) or name not in known:
            hint = f"dimensions of the mesh: {', '.join(known) or 'none'}"
            raise UsageError(f"no mesh dimension {shorten(name)!r}", hint=hint)
    asked = tuple(dict.fromkeys(asked))
    if options.certificate:
        hint = "a certificate is about one plan: check an instance of this one"
        raise UsageError("no certificate for every size", hint=hint)
    varying = [known[name] for name in asked]
    fixed = [dim for dim in varying if dim.cutoff is None]
    if fixed:
        return _not_replicated(plan, fixed, options), plan
    sizes = _smallest(known.values(), asked)
    small = instance(plan, sizes) if sizes else plan
    verdict = _for_every_size(plan, check_plan(small, options), varying)
    stats = replace(verdict.stats, ms=(time.perf_counter() - started) * 1e3)
    return replace(verdict, stats=stats), small


@arguments(plan=PLAN, options=OPTIONS)
def check_symbolic(plan: Plan, options: CheckOptions | None = None) -> Verdict:
    """Decide a plan on the instance with every replicated dimension cut down.

    The outcome is that of ``check_plan``, in the time that the small instance takes; where there
    are findings, they are made by ``check_plan`` on the whole plan when they are looked at.

    Args:
        plan: A plan; one that has no replicated dimension is decided as it is.
        options: What to check; the defaults if None.

    Raises:
        PlanError: A rank uses a peer, root or group it cannot use, or the model is unknown.
    """
    started = time.perf_counter()
    options = options or CheckOptions()
    sizes = _smallest(replications(plan).values(), ())
    if not sizes or options.certificate:
        return check_plan(plan, options)
    small = check_plan(instance(plan, sizes), options)
    if _is_open(plan):
        small = replace(small, assumptions=(*small.assumptions, OPEN_ORDERS))
    evidence = _quotient(small.evidence)
    if small.findings or small.safe_iff or small.reasons or small.approximations:
        return LazyVerdict.of(
            lambda: check_plan(plan, options), outcome=small.outcome, models=small.models
        )
    stats = Stats(
        ranks=plan.world_size,
        actions=_actions(plan),
        groups=_groups(plan),
        classes=len(plan.code.programs),
        ms=(time.perf_counter() - started) * 1e3,
    )
    return replace(small, evidence=evidence, plan=plan_info(plan), stats=stats)


def _smallest(dims: Iterable[Replication], asked: Iterable[str]) -> dict[str, int]:
    """Return the sizes that differ from the plan's in the smallest equivalent instance."""
    names = set(asked)
    return {
        dim.name: dim.cutoff
        for dim in dims
        if dim.cutoff is not None
        and (dim.size > dim.cutoff or (dim.name in names and dim.size != dim.cutoff))
    }


def _for_every_size(plan: Plan, verdict: Verdict, varying: list[Replication]) -> Verdict:
    sizes = " and ".join(f"every {dim.name} >= {dim.cutoff}" for dim in varying)
    shown = ", ".join(f"{dim.name}={dim.cutoff}" for dim in varying)
    verdict = replace(verdict, evidence=_quotient(verdict.evidence))
    if _is_open(plan):
        entry = Approximation(
            kind=OPEN_ORDERS,
            message="that open orders behave alike at every size is tested, not proved",
            scope="plan",
        )
        verdict = replace(
            verdict,
            assumptions=(*verdict.assumptions, OPEN_ORDERS),
            approximations=(*verdict.approximations, entry),
        )
    if verdict.safe:
        return replace(verdict, proved=(*verdict.proved, sizes))
    note = f"the outcome is the same for {sizes}; shown at {shown}"
    findings = tuple(
        replace(finding, notes=(*finding.notes, note)) if finding.severity == "error" else finding
        for finding in verdict.findings
    )
    return replace(verdict, findings=findings)


def _not_replicated(plan: Plan, dims: list[Replication], options: CheckOptions) -> Verdict:
    model = plan.model or DEFAULT_MODEL
    if options.model not in {None, "all"}:
        model = str(options.model)
    findings = tuple(
        make_finding(
            "PG902",
            f"not decided for every size of {dim.name}: {dim.reason}",
            severity="warning",
            certainty="some-execution",
        )
        for dim in dims
    )
    return Verdict(
        Outcome.UNKNOWN,
        model,
        findings,
        complete=False,
        models={model: Outcome.UNKNOWN},
        evidence=Evidence(schedules=0),
        approximations=plan.approximations,
        reasons=tuple(finding.message for finding in findings),
        plan=plan_info(plan),
        stats=Stats(plan.world_size, plan.actions, classes=len(plan.code.programs)),
        native=kernels.IMPLEMENTATION == "native",
    )


def _quotient(evidence: Evidence) -> Evidence:
    route = evidence.route if "quotient" in evidence.route else ("quotient", *evidence.route)
    return replace(evidence, route=route)


def _is_open(plan: Plan) -> bool:
    """Whether blocks leave the order of actions open."""
    return any(
        Kind.UNORDERED_BEGIN in {op & KIND_MASK for op in set(program.code[::WORDS])}
        for program in plan.code.programs
    )


def _actions(plan: Plan) -> int:
    import numpy as np

    counts = np.bincount(np.frombuffer(plan.code.rank_program, dtype=np.uint32))
    return sum(
        int(count) * program.length
        for count, program in zip(counts, plan.code.programs, strict=False)
    )


def _groups(plan: Plan) -> int:
    return sum(
        plan.world_size // group.size(plan.mesh) if group.is_family else 1 for group in plan.groups
    )
