"""From what the files say to a verdict: assemble, triage, compare with the plan, ask the engine."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.audit.admissible import other_executions
from planguard.audit.findings.beside import beside_findings
from planguard.audit.findings.stand import stand_in
from planguard.audit.findings.strength import STUCK, graded, of_start
from planguard.audit.findings.triage import Triage, triage
from planguard.audit.joining.assemble import Assembled, assemble
from planguard.audit.joining.gaps import is_empty, left_out
from planguard.audit.joining.ranks import OfNobodyError
from planguard.audit.plans import BOTH_PLANS, told_apart
from planguard.audit.readers.part import UNREAD
from planguard.catalog import report_order
from planguard.errors import UsageError
from planguard.execution.findings.cause import make_finding
from planguard.verdict import Approximation, Evidence, Outcome, PlanInfo, Stats, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.answer import AuditOptions
    from planguard.audit.intended import Beside
    from planguard.audit.readers.part import Part
    from planguard.plan.plan import Plan
    from planguard.recording import Recording
    from planguard.verdict import Finding

MODELS = {"gloo": "gloo", "nccl": "nccl", "mpi": "mpi-pg"}


def audit_parts(parts: Sequence[Part], options: AuditOptions) -> Verdict:
    """Return what a run was stuck in, from what its files say.

    Raises:
        PlanError: More ranks than any job has.
        UsageError: No recording.
    """
    started = time.perf_counter()
    told = told_apart(parts, options.plan, options.world_size)
    if told.captured is not None:
        return _plans_compared(told.captured, options)
    parts = told.parts
    options = replace(options, plan=told.plan if options.takes_plans else options.plan)
    if parts and all(part.kind == UNREAD and is_empty(part) for part in parts):
        return unanswered(
            options, (NOT_UNDERSTOOD, *left_out(parts), *told.remarks), "PG904", KNOWN
        )
    try:
        assembled = assemble(
            parts, world_size=options.world_size, plan=options.plan, prefix=options.prefix
        )
    except OfNobodyError as error:
        said = (NOT_UNDERSTOOD, *error.said, *told.remarks)
        return unanswered(options, said, "PG904", KNOWN)
    assembled.remarks += told.remarks
    verdict = judge(assembled, options)
    stats = replace(verdict.stats, ms=(time.perf_counter() - started) * 1000)
    verdict = replace(verdict, stats=stats)
    if options.repo is None:
        return verdict
    from planguard.audit.repo import with_sources  # where a repository is named

    return with_sources(verdict, options.repo, assembled.recording)


def judge(assembled: Assembled, options: AuditOptions) -> Verdict:
    """Return the verdict on an assembled recording."""
    recording = stand_in(assembled.recording, assembled.arguments)
    if options.groups:
        recording = _only(recording, options.groups)
    model = options.model or MODELS.get(recording.backend or "", "nccl")
    beside: Beside | None = None
    if options.plan is not None:
        from planguard.audit.intended import lay_beside  # most audits have no plan beside them

        beside = lay_beside(recording, options.plan)
        recording = beside.recording
    found = triage(recording)
    recording = replace(recording, gaps=(*recording.gaps, *found.doubts))
    is_of_one_moment = not found.graph.earlier
    findings, reasons = list(found.findings), [*found.open, *recording.notes]
    if not recording.actions:
        reasons.append("no communication was recorded")
    proved: tuple[str, ...] = ()
    if beside is not None and is_of_one_moment and all(f.subkind == "missing" for f in findings):
        # What the plan itself hangs in explains more than who did not come.
        findings = beside.predicted(model) or findings
    raised = [rank for rank, one in recording.ranks.items() if one.has_ended is False]
    if not findings and not found.is_stuck and not raised and is_of_one_moment:
        why = [f"{said}: other executions are open" for said in found.rounds.begun_late()]
        why += assembled.troubles
        if not why:
            others, proved, why = other_executions(recording, model)
            findings += others
        reasons += why
    if beside is not None:
        from planguard.audit.intended import differences

        findings = [beside.told_next(f) if f.subkind == "missing" else f for f in findings]
        findings += differences(recording, beside.plan)
    findings += beside_findings(
        assembled,
        recording,
        is_stuck=found.is_stuck,
        allow_incomplete=options.allow_incomplete,
    )
    return _verdict(recording, model, found, findings, reasons, proved, options, assembled)


def _plans_compared(captured: Plan, options: AuditOptions) -> Verdict:
    """Return how one plan differs from the intended one; nothing is decided of any run.

    Raises:
        UsageError: They are for different numbers of ranks.
    """
    from planguard.audit.intended import differences
    from planguard.recording.planned import recording_of

    intended = options.plan
    if intended is None or intended.world_size != captured.world_size:
        sizes = f"{captured.world_size} and {0 if intended is None else intended.world_size} ranks"
        raise UsageError(f"the two plans have {sizes}", hint="compare plans of as many ranks")
    found = differences(recording_of(captured), intended)
    verdict = unanswered(options, (BOTH_PLANS,), "PG904", "audit what the job left behind")
    findings = sorted(
        [*found, *verdict.findings], key=lambda one: report_order(one.severity, one.code)
    )
    stats = Stats(ranks=captured.world_size)
    return replace(verdict, findings=tuple(findings), stats=stats)


def _only(recording: Recording, groups: tuple[str, ...]) -> Recording:
    """Return the part of a recording that is about some groups."""
    from planguard.recording import Track

    kept = {
        name
        for name, group in recording.groups.items()
        if name in groups or group.description in groups
    }
    ranks = {
        rank: replace(
            record,
            actions=Track.of(
                one for one in record.actions if one.call.group in kept or one.call.group is None
            ),
        )
        for rank, record in recording.ranks.items()
    }
    return replace(recording, ranks=ranks)


def _verdict(
    recording: Recording,
    model: str,
    found: Triage,
    findings: list[Finding],
    reasons: list[str],
    proved: tuple[str, ...],
    options: AuditOptions,
    assembled: Assembled,
) -> Verdict:
    findings = [of_start(one, assembled.start) for one in graded(findings, recording)]
    outcome = _outcome(found, findings, reasons, recording)
    if outcome is Outcome.UNKNOWN:
        findings.append(_undecided(recording, reasons))
    findings.sort(key=lambda f: report_order(f.severity, f.code))
    notes = tuple(
        Approximation("recording", note, "exact", scope="plan")
        for note in dict.fromkeys([*recording.notes, *assembled.remarks])
    )
    return Verdict(
        outcome,
        model,
        tuple(findings),
        complete=not recording.gaps,
        models={model: outcome},
        evidence=Evidence(kind="trace"),
        proved=proved,
        assumptions=("static-control-flow",) if outcome is Outcome.SAFE else (),
        approximations=notes,
        reasons=tuple(reasons),
        plan=PlanInfo(file=options.name, planner="+".join(recording.kinds) or None),
        stats=Stats(
            ranks=recording.world_size,
            actions=recording.actions,
            groups=len(recording.groups),
            classes=len({r.track.call.tobytes() for r in recording.ranks.values()}),
        ),
    )


_IS_FAULT = re.compile(r"PG0|PG2|PG405|PG50[12]$")


def _outcome(
    found: Triage, findings: list[Finding], reasons: list[str], recording: Recording
) -> Outcome:
    # What a comparison with a plan shows leaves the outcome as it is.
    errors = [f for f in findings if f.severity == "error" and f.code != "PG503"]
    wrong = any(
        f.code.startswith(("PG2", "PG405")) and not f.code.startswith(STUCK) for f in errors
    )
    stuck = [f for f in errors if f.code.startswith(STUCK)]
    if wrong and all("PG501" in f.related or not f.code.startswith("PG0") for f in errors):
        # A stuck state that depends on a mismatched round is its consequence.
        return Outcome.MISMATCH
    if any(f.certainty != "heuristic" for f in stuck):
        certain = any(f.certainty == "all-executions" for f in stuck)
        return Outcome.DEADLOCK if certain or found.is_stuck else Outcome.POTENTIAL_DEADLOCK
    if found.is_stuck and any(f.code == "PG506" and f.certainty != "heuristic" for f in errors):
        return Outcome.DEADLOCK  # others wait for a rank that is no more
    if any(f.code.startswith("PG1") for f in errors):
        return Outcome.POTENTIAL_DEADLOCK
    if wrong:
        return Outcome.MISMATCH
    is_suspected = any(f.certainty == "heuristic" and _IS_FAULT.match(f.code) for f in findings)
    if recording.gaps or reasons or found.is_stuck or errors or is_suspected:
        return Outcome.UNKNOWN
    return Outcome.SAFE


def _undecided(recording: Recording, reasons: list[str]) -> Finding:
    """Return why nothing is claimed about the run as a whole."""
    why = [*reasons, *(gap.message for gap in recording.gaps)]
    said = "; ".join(dict.fromkeys(why)) or "the recorded calls do not tell"
    return make_finding(
        "PG904",
        f"not decided: {said}",
        evidence="T",
        help="add what is missing, or compare with the intended plan: --plan PLAN",
    )


NOT_UNDERSTOOD = "nothing in the files is known to say what a job was stuck in"
KNOWN = (
    "give what ranks printed, stacks of py-spy or faulthandler, reports of RAS, or Flight Recorder "
    "dumps; docs/reference/audit.md lists all that is read"
)
LOST = "a process that read recordings ended before it was done; was it out of memory?"


def lost(options: AuditOptions) -> Verdict:
    """Return the answer of an audit that could not read everything: nothing is claimed."""
    return unanswered(options, (LOST,), "PG903", "audit fewer files at a time, or with more memory")


def unanswered(
    options: AuditOptions, reasons: tuple[str, ...], code: str, help_text: str
) -> Verdict:
    """Return the answer of an audit that has nothing to judge, with why."""
    finding = make_finding(code, "; ".join(reasons), evidence="T", help=help_text)
    model = options.model or "nccl"
    return Verdict(
        Outcome.UNKNOWN,
        model,
        (finding,),
        complete=False,
        models={model: Outcome.UNKNOWN},
        evidence=Evidence(kind="trace"),
        reasons=reasons,
        plan=PlanInfo(file=options.name),
    )
