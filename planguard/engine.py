"""One plan in, one verdict out: the pipeline from symbolic plan to verdict.

Above 400 lines: which route decides what, and how much of a verdict somebody looks at, are one
question, and each route asks the others back.
"""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard import kernels
from planguard.catalog import report_order
from planguard.errors import OrderError
from planguard.execution.advice import name_potential, safe_iff, with_help
from planguard.execution.decide import Decider, Decision
from planguard.execution.findings.cause import left_open, open_finding
from planguard.execution.findings.claims import PROVED, with_claims
from planguard.execution.findings.created import with_clashes
from planguard.execution.findings.dropped import with_drops
from planguard.execution.findings.fold import fold
from planguard.execution.findings.ledger import apply_ledger, with_captured, with_guards
from planguard.execution.findings.misaddressed import joined_addresses
from planguard.execution.findings.notes import (
    creation_findings,
    hazard_findings,
    leftover_findings,
    mixed_findings,
    small_group_findings,
)
from planguard.execution.findings.reason import Kind as Why
from planguard.execution.findings.reason import Reason, UndecidedError, construct, out_of_time
from planguard.execution.findings.sequence import with_numbers
from planguard.execution.findings.undecided import (
    has_own_messages,
    nothing_to_check,
    refused_messages,
    undecided,
)
from planguard.execution.one_lock import with_turns
from planguard.execution.running.expand import expand
from planguard.execution.witness import make_witness, mismatch_witness
from planguard.options import DEFAULT_MODEL, MODEL_NAMES, CheckOptions, Running, running
from planguard.plan.actions import Kind
from planguard.plan.compiling.operations import used
from planguard.plan.content import has_kind
from planguard.semantics.model import find_model
from planguard.verdict import Evidence, Finding, Outcome, PlanInfo, Stats, Verdict

if TYPE_CHECKING:
    from planguard.execution.findings.classify import Cause
    from planguard.plan.plan import Plan
    from planguard.semantics.model import ExecutionModel

ASSUMPTIONS = ("static-shapes", "static-control-flow", "no-link-faults")


def check_plan(
    plan: Plan, options: CheckOptions | None = None, *, outline: bool = False
) -> Verdict:
    """Decide a plan.

    Args:
        plan: A plan that passed the door.
        options: What to check; the defaults if None.
        outline: Only the outcome is asked for: what is stuck is not explained, what else is
            found has no witness, and there are no statistics and no certificate.

    Returns:
        The verdict under the selected model. With ``model="all"`` the plan's own model (else
        ``nccl``) is the selected one and ``Verdict.models`` holds every outcome.

    Raises:
        PlanError: If a rank uses a peer, root or group it cannot use, or the model is unknown.
        InternalError: If the independent checker rejects the certificate that was asked for.
    """
    started = time.perf_counter()
    options = running(options or CheckOptions())
    asked = options.model or plan.model or DEFAULT_MODEL
    selected = (plan.model or DEFAULT_MODEL) if asked == "all" else asked
    try:
        columns = expand(plan)
    except OrderError as error:
        return _beyond(plan, options, find_model(selected), error)
    detail = Detail.OUTLINE if outline else Detail.FULL
    verdict = _decide(plan, columns, replace(options, model=selected), detail)
    verdict = with_claims(verdict, plan, columns)
    if asked == "all":
        verdict = _matrix(plan, columns, options, verdict, detail)
    if outline:
        return verdict
    if options.certificate:
        from planguard.execution.certifying.certify import with_certificate

        pinned = is_bounded(find_model(verdict.model), options)
        verdict = with_certificate(
            verdict, plan, columns, pinned=pinned, eager_bytes=options.eager_bytes
        )
    stats = Stats(
        ranks=plan.world_size,
        actions=plan.actions,
        groups=len(columns.ginst_group),
        classes=len(plan.code.programs),
        ms=(time.perf_counter() - started) * 1e3,
    )
    native = kernels.IMPLEMENTATION == "native"
    whole = replace(verdict, stats=stats, plan=plan_info(plan), native=native)
    return with_captured(with_guards(whole))


def plan_info(plan: Plan) -> PlanInfo:
    """Return which plan a verdict is about."""
    return PlanInfo(
        file=plan.file,
        name=plan.name,
        sha256=plan.sha256 if plan.source else None,
        planner=plan.planner,
    )


def _matrix(
    plan: Plan, columns: Any, options: Running, selected: Verdict, detail: Detail
) -> Verdict:
    """Decide under every model; conditions found under any of them are stated."""
    detail = Detail.OUTLINE if detail is Detail.OUTLINE else Detail.BRIEF
    outcomes, codes = {}, {}
    is_open = bool(plan.fusion) or columns.has_markers or is_contested(plan, columns)
    conditions = list(selected.safe_iff)
    for name in MODEL_NAMES:
        verdict = selected
        if name != selected.model and is_open and options.deadline.expired():
            late = out_of_time(f" before {name} was asked")
            verdict = _open(plan, name, [open_finding(late)])
        elif name != selected.model:
            verdict = _decide(plan, columns, replace(options, model=name), detail)
        outcomes[name] = verdict.outcome
        codes[name] = tuple(sorted({f.code for f in verdict.findings if f.severity == "error"}))
        conditions += [c for c in verdict.safe_iff if c not in conditions]
    return replace(selected, models=outcomes, model_codes=codes, safe_iff=tuple(conditions))


def _beyond(plan: Plan, options: CheckOptions, model: ExecutionModel, error: OrderError) -> Verdict:
    """Return UNKNOWN, under every model asked for, of a plan that cannot be written as columns."""
    verdict = _open(plan, model.name, [_invalid(error)])
    if options.model == "all":
        verdict = replace(verdict, models=dict.fromkeys(MODEL_NAMES, Outcome.UNKNOWN))
    stats = Stats(ranks=plan.world_size, actions=plan.actions, classes=len(plan.code.programs))
    native = kernels.IMPLEMENTATION == "native"
    return replace(verdict, stats=stats, plan=plan_info(plan), native=native)


def _invalid(error: OrderError) -> Finding:
    """Return why a plan is not decided in which some order is no valid program."""
    detail = f"in some admissible order {error.path} is not valid: {error.message}"
    return open_finding(Reason(Why.INVALID, detail))


def _decide(plan: Plan, columns: Any, options: CheckOptions, detail: Detail) -> Verdict:
    """Decide a plan; an order that is no valid program makes it UNKNOWN, never an exception."""
    try:
        alike = _over_alike(plan, columns, options, detail)
        if alike is not None:
            return alike
        routed = _routed(plan, columns, options, detail)
        verdict = _in_turns(plan, columns, options, routed, _Fixed(options, detail))
        if has_kind(plan, Kind.CHOICE_BEGIN):  # each branch was asked alone
            return verdict
        verdict = with_drops(with_numbers(verdict, plan, columns), columns)
        return with_clashes(verdict, plan, columns)
    except OrderError as error:
        return _open(plan, str(options.model), [_invalid(error)])


def _over_alike(plan: Plan, columns: Any, options: CheckOptions, detail: Detail) -> Verdict | None:
    """Decide a plan as one that has the same executions and leaves less open, if there is one."""
    if has_kind(plan, Kind.CHOICE_BEGIN):
        return None
    if has_kind(plan, Kind.THREADS_BEGIN):
        from planguard.reordering.threads.alone import over_lone

        return over_lone(plan, columns, _Rest(options, detail))
    if plan.fusion or columns.has_markers or not is_contested(plan, columns):
        return None
    from planguard.reordering.messages.decide import over_named

    model = find_model(str(options.model))
    return over_named(plan, columns, model, _Rest(options, detail))


def _in_turns(
    plan: Plan, columns: Any, options: CheckOptions, verdict: Verdict, fixed: _Fixed
) -> Verdict:
    """Decide who of a process is in MPI first, where that is open."""
    each_alone = verdict.evidence.kind == "exhaustive" and has_kind(plan, Kind.CHOICE_BEGIN)
    if each_alone or _asks_each_order(plan, columns):
        return verdict
    left = with_turns(verdict, columns)
    is_branched = has_kind(plan, Kind.CHOICE_BEGIN)
    if left is verdict or is_branched or plan.fusion or is_contested(plan, columns):
        return left
    from planguard.reordering.turns.search import over_turns

    model = find_model(verdict.model)
    try:
        return over_turns(plan, columns, model, options, fixed, verdict)
    except UndecidedError as undecided:
        reason = undecided.reason.about("who of a process is in MPI first")
        return left_open(verdict, open_finding(reason))


def _routed(plan: Plan, columns: Any, options: CheckOptions, detail: Detail) -> Verdict:
    """Decide a plan by the route that its constructs ask for."""
    model = find_model(str(options.model))
    refused = refused_messages(columns, model)
    open_points = [*undecided(plan, options), *([refused] if refused else [])]
    if open_points:
        return _open(plan, model.name, open_points)
    if has_kind(plan, Kind.CHOICE_BEGIN):
        from planguard.reordering.branches.decide import over_branches

        decide = _Rest(options, detail)
        return over_branches(plan, columns, model, options, decide)
    has_threads = has_kind(plan, Kind.THREADS_BEGIN)
    # Where threads are chains of an open order, members in them are members of a block.
    if plan.fusion and not (has_threads and _are_chains(plan, columns, model)):
        from planguard.reordering.buffers.decide import over_flushes

        # What a case shows is asked for, so at least one of its causes is kept.
        inner = replace(options, explain_limit=max(1, options.explain_limit))
        return over_flushes(plan, model.name, options, _Rest(inner, detail))
    if has_threads:
        from planguard.reordering.threads.decide import over_threads

        rest, fixed = _Rest(options, detail), _Fixed(options, detail)
        return over_threads(plan, columns, model, options, rest, fixed)
    is_open = is_contested(plan, columns) or is_bounded(model, options)
    # The rules of open order are about ranks that meet others: where one meets itself, each order
    # is played.
    if columns.has_markers and (is_open or has_own_messages(columns)):
        from planguard.reordering.branches.orders import over_each_order

        return over_each_order(plan, columns, model, options, _Rest(options, detail))
    if is_contested(plan, columns):
        from planguard.reordering.messages.decide import over_matches

        return over_matches(plan, columns, model, options, _Fixed(options, detail))
    if columns.has_markers:
        return _over_orders(plan, columns, options, detail)
    if is_bounded(model, options):
        from planguard.reordering.residency import over_residency

        return over_residency(plan, columns, model, options, _Fixed(options, detail))
    return _over_ends(plan, columns, model, options, detail)


def _are_chains(plan: Plan, columns: Any, model: ExecutionModel) -> bool:
    from planguard.reordering.threads.decide import are_chains

    return are_chains(plan, columns, model)


def is_contested(plan: Plan, columns: Any) -> bool:
    """Tell whether messages compete for receives, or a wait is for one of several handles."""
    if columns.has_any_source or columns.has_any_tag or columns.has_wait_choice:
        return True
    return has_kind(plan, Kind.PROBE)


def _asks_each_order(plan: Plan, columns: Any) -> bool:
    """Tell whether every order of the blocks of a plan is decided as a plan of its own."""
    is_plain = not plan.fusion and not has_kind(plan, Kind.THREADS_BEGIN)
    return is_plain and columns.has_markers and is_contested(plan, columns)


def is_bounded(model: ExecutionModel, options: CheckOptions) -> bool:
    """Tell whether the options say how many kernels a device holds, or in which order it starts."""
    asked = options.max_resident_kernels is not None or not options.strict_start_order
    return asked and model.free_launch


def _over_ends(
    plan: Plan, columns: Any, model: ExecutionModel, options: CheckOptions, detail: Detail
) -> Verdict:
    """Decide a fixed plan by the two ends of its executions."""
    outline = detail is Detail.OUTLINE
    decider = Decider(plan, columns, model, options)
    decision = name_potential(decider, decider.decide(outline=outline))
    if decision.outcome is Outcome.SAFE:
        empty = nothing_to_check(plan, columns, model)
        if empty is not None:  # a lost message is more than nothing
            return _open(plan, model.name, [*leftover_findings(decision.execution), empty])
    verdict = _verdict(decider, decision, options, detail)
    if detail is not Detail.FULL:
        return verdict
    return replace(verdict, findings=joined_addresses(plan, verdict.findings))


class Detail(enum.Enum):
    """How much of a verdict somebody looks at."""

    OUTLINE = 0
    """The outcome, and whether members of a match disagree."""
    BRIEF = 1
    """Findings, without their witnesses and what decides nothing."""
    FULL = 2


@dataclass(frozen=True)
class _Fixed:
    """Decides a fixed plan under rules that are not those of a model by name."""

    options: CheckOptions
    detail: Detail

    def __call__(
        self, plan: Plan, model: ExecutionModel, *, brief: bool, implementation: Any = None
    ) -> Verdict:
        decider = Decider(plan, expand(plan), model, self.options, implementation)
        decision = decider.decide()
        if decision.outcome is Outcome.SAFE:
            empty = nothing_to_check(plan, decider.columns, model)
            if empty is not None:
                return _open(plan, model.name, [empty])
        detail = Detail.FULL if self.detail is Detail.FULL and not brief else Detail.BRIEF
        return _verdict(decider, decision, self.options, detail)


@dataclass
class _Rest:
    """Decides what a plan leaves open once something was picked.

    A route often asks for the outcome of a plan first and for its findings then. The last plan is
    kept with its columns, and with its verdict where both questions have one answer.
    """

    options: CheckOptions
    detail: Detail
    _last: tuple[Plan, Any, Detail, Verdict] | None = None

    @property
    def outline(self) -> bool:
        """Whether the outcome is all that is asked of the whole plan."""
        return self.detail is Detail.OUTLINE

    def __call__(self, plan: Plan, *, brief: bool) -> Verdict:
        detail = self.detail
        if brief:
            detail = Detail.OUTLINE
        elif self.outline:
            detail = Detail.BRIEF
        columns = None
        # By identity: a plan is never changed, and the one kept here is alive.
        if self._last is not None and self._last[0] is plan:
            _, columns, was, verdict = self._last
            if was is detail:
                return verdict
        if columns is None:
            columns = expand(plan)
        verdict = _decide(plan, columns, self.options, detail)
        self._last = plan, columns, detail, verdict
        return verdict


def _over_orders(plan: Plan, columns: Any, options: CheckOptions, detail: Detail) -> Verdict:
    """Decide a plan whose `unordered` blocks leave orders open."""
    # Not at the top: most plans leave no order open, and start without the routes.
    from planguard.reordering.cases.translate import translate
    from planguard.reordering.strategy import explore

    model = find_model(str(options.model))
    explored = explore(plan, columns, model, options)
    if explored.decider is None or explored.shown is None or explored.ordered is None:
        reason = explored.reason or construct("no route decides its open order")
        return _open(plan, model.name, [open_finding(reason)])
    if explored.outcome is Outcome.SAFE:
        empty = nothing_to_check(explored.ordered.plan, explored.decider.columns, model)
        if empty is not None:
            return _open(plan, model.name, [empty])
    decision = name_potential(explored.decider, explored.shown)
    verdict = _verdict(explored.decider, decision, options, detail)
    return apply_ledger(translate(plan, explored, verdict))


def _open(plan: Plan, model: str, findings: list[Finding]) -> Verdict:
    """Return UNKNOWN with its reasons."""
    return Verdict(
        Outcome.UNKNOWN,
        model,
        tuple(findings),
        complete=False,
        models={model: Outcome.UNKNOWN},
        evidence=Evidence(schedules=0),
        approximations=plan.approximations,
        reasons=tuple(f.message for f in findings),
    )


def _verdict(
    decider: Decider, decision: Decision, options: CheckOptions, detail: Detail
) -> Verdict:
    brief = detail is not Detail.FULL
    causes = [with_help(cause) for cause in fold(decision.causes)]
    if not brief:
        causes = causes[: options.explain_limit]
    findings = [_finish(cause, decision, brief=brief) for cause in causes]
    if not brief:
        findings = _beside(decider, decision, findings)
    findings.sort(key=lambda f: report_order(f.severity, f.code))
    conditions = () if brief else safe_iff(decider, decision)
    verdict = Verdict(
        decision.outcome,
        decider.model.name,
        # In brief it is one case of several: whether its members disagree must not be cut off.
        tuple(findings if brief else findings[: options.explain_limit]),
        models={decider.model.name: decision.outcome},
        safe_iff=conditions,
        evidence=Evidence(schedules=decider.runs),
        proved=PROVED if decision.outcome is Outcome.SAFE else (),
        assumptions=(*ASSUMPTIONS, *used(decider.plan.code.programs)),
        approximations=decider.plan.approximations,
    )
    return apply_ledger(verdict)


def _beside(decider: Decider, decision: Decision, findings: list[Finding]) -> list[Finding]:
    """Add what does not decide the outcome; a wrong creation order hides the hang it implies."""
    plan, columns = decider.plan, decider.columns
    wrong_order = creation_findings(plan, columns)
    if wrong_order and decision.outcome is not Outcome.SAFE:
        implied = tuple(sorted({f.code for f in findings if f.code.startswith("PG0")}))
        findings = [f for f in findings if f.code not in implied]
        wrong_order = [replace(f, consequences=implied) for f in wrong_order]
    extra = [
        *wrong_order,
        *hazard_findings(plan, decider.model.name),
        *mixed_findings(decision.execution),
        *small_group_findings(plan, columns),
    ]
    if decision.execution.completes:
        extra += leftover_findings(decision.execution)
    known = {(f.code, f.primary) for f in findings}
    return findings + [f for f in extra if (f.code, f.primary) not in known]


def _finish(cause: Cause, decision: Decision, *, brief: bool) -> Finding:
    """Add the witness, the consequences and the fingerprint."""
    finding = cause.finding
    implied = decision.implied if finding.code.startswith("PG2") else ()
    if brief:
        return replace(finding, consequences=implied)
    stuck = finding.subkind is not None
    make = make_witness if stuck else mismatch_witness
    return replace(
        finding,
        consequences=implied,
        witness=make(cause.execution or decision.execution, cause) if cause.blocked else None,
        fingerprint=_fingerprint(decision, cause),
    )


def _fingerprint(decision: Decision, cause: Cause) -> str:
    from planguard.result.fingerprint import fingerprint

    code = decision.execution.plan.code
    names = [code.programs[code.rank_program[place.rank]].name for place in cause.blocked]
    ops = [
        decision.execution.plan.action_at(place.rank, place.action).op for place in cause.blocked
    ]
    return fingerprint(cause.finding.code, names, ops)
