"""What several plans say together, each standing for some executions of one plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from planguard.catalog import lookup
from planguard.execution.findings.cause import open_finding
from planguard.execution.findings.help import HELP, WHEN
from planguard.execution.findings.ledger import apply_ledger
from planguard.reordering.cases.translate import back
from planguard.reordering.join import Case, join, left_open, mixes
from planguard.verdict import Evidence, Finding, Met, Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.execution.findings.reason import Reason
    from planguard.plan.fixed import FixedPlan
    from planguard.plan.plan import Plan


class Decide(Protocol):
    """Decides what a plan leaves open once something was picked."""

    @property
    def outline(self) -> bool:
        """Whether nobody looks at the findings of the whole plan, so ``brief`` always does."""
        ...

    def __call__(self, plan: Plan, *, brief: bool) -> Verdict:
        """Return the verdict; ``brief`` asks for its outcome, and whether members disagree."""
        ...


@dataclass(frozen=True)
class Part:
    """One plan among those that an open plan stands for.

    Attributes:
        ordered: The plan, and where its actions come from.
        verdict: What is known of it.
        notes: What was picked, in words.
        differs: Whether ranks differ in what they picked.
        matches: Who met whom, by rank and action of the plan that is decided.
        help: What to change, where what was picked tells; else the code of the finding does.
    """

    ordered: FixedPlan
    verdict: Verdict
    notes: tuple[str, ...] = ()
    differs: bool = False
    matches: tuple[Met, ...] = ()
    help: str = ""

    @property
    def outcome(self) -> Outcome:
        """The outcome; SAFE where nothing matches anything, since then nothing blocks."""
        return Outcome.SAFE if is_empty(self.verdict) else self.verdict.outcome

    @property
    def is_safe(self) -> bool:
        """Whether nothing goes wrong, be it that nothing matches anything."""
        return self.outcome is Outcome.SAFE

    @property
    def mixes(self) -> bool:
        """Whether some execution forms a match whose members disagree."""
        return mixes(self.verdict)


def is_empty(verdict: Verdict) -> bool:
    """Tell whether a plan was not decided only because nothing in it matches anything."""
    return verdict.unknown and {f.code for f in verdict.findings} - {"PG210"} == {"PG910"}


def together(parts: Iterable[Part]) -> Outcome:
    """Return one outcome for all parts: certain only if every part says so.

    A part in which nothing matches anything goes well beside others; alone it shows nothing.
    """
    parts = list(parts)
    if parts and all(is_empty(part.verdict) for part in parts):
        return Outcome.UNKNOWN
    return join(Case(part.outcome, part.mixes) for part in parts)


def shown_of(parts: Iterable[Part], outcome: Outcome) -> Part:
    """Return the first part that shows an outcome, one whose members disagree if there is one.

    Whoever joins the verdict with others has to see that some do (``join.mixes``).
    """
    parts = sorted(parts, key=lambda part: not part.mixes)
    exact = [part for part in parts if part.outcome is outcome]
    if outcome is Outcome.MISMATCH:
        exact = exact or [part for part in parts if part.mixes]
    found = exact or sorted(parts, key=lambda part: -part.outcome.severity)
    return next((part for part in found if not is_empty(part.verdict)), found[0])


def open_verdict(plan: Plan, model: str, reason: Reason) -> Verdict:
    """Return UNKNOWN with its reason."""
    finding = open_finding(reason)
    return Verdict(
        Outcome.UNKNOWN,
        model,
        (finding,),
        complete=False,
        models={model: Outcome.UNKNOWN},
        evidence=Evidence(schedules=0),
        approximations=plan.approximations,
        reasons=(finding.message,),
    )


def combined(plan: Plan, parts: list[Part], full: Verdict, shown: Part, code: str) -> Verdict:
    """Return the verdict on a plan that all parts together stand for.

    Args:
        plan: The plan.
        parts: What was decided of it, in brief.
        full: The verdict on the part that is shown, with its witnesses.
        shown: The part that is shown.
        code: Code of findings that hold only for some picks in which ranks differ.
    """
    if full.unknown and shown.verdict.unsafe:
        # In brief the part goes wrong; time ended before that could be shown, and what is not shown
        # is not claimed.
        moved = tuple(_finding(plan, shown, one, code=None) for one in full.findings)
        full = replace(full, findings=moved, approximations=plan.approximations)
        return replace(full, certificate=None, core=())
    outcome = together(parts)
    certain = outcome in {Outcome.SAFE, Outcome.DEADLOCK} or len(parts) == 1
    undecided = [part for part in parts if part.outcome is Outcome.UNKNOWN]
    findings = tuple(
        _finding(plan, shown, finding, code=None if certain else code) for finding in full.findings
    )
    left = [part for part in parts if not (part.verdict.complete or part.is_safe)]
    reasons = left_open(part.verdict for part in parts)
    inner = [name for name in full.evidence.route if name != "deterministic"]
    verdict = replace(
        full,
        outcome=outcome,
        findings=findings,
        complete=not undecided and not left,
        models={full.model: outcome},
        safe_iff=full.safe_iff if certain else (),
        evidence=Evidence(
            kind="execution" if undecided else "exhaustive",
            route=tuple(dict.fromkeys(("explorer", *inner))),
            engine="explorer",
            schedules=sum(_schedules(part.verdict) for part in parts),
            states=sum(part.verdict.evidence.states for part in parts),
            z3_ms=sum(part.verdict.evidence.z3_ms for part in parts),
        ),
        approximations=plan.approximations,
        proved=full.proved if outcome is Outcome.SAFE else (),
        reasons=reasons,
        certificate=None,
        core=(),
    )
    return apply_ledger(verdict)


def _finding(plan: Plan, shown: Part, finding: Finding, *, code: str | None) -> Finding:
    moved = back(plan, shown.ordered, finding)
    if moved.witness is not None and shown.matches:
        moved = replace(moved, witness=replace(moved.witness, matches=shown.matches))
    if moved.severity != "error" or moved.code.startswith(("PG3", "PG4", "PG9")):
        return moved
    if code is None:
        return moved
    moved = replace(moved, certainty="some-execution", notes=(*shown.notes, *moved.notes))
    if not shown.differs or moved.code == code:
        return moved
    general = HELP.get(code, moved.help)
    entry = lookup(code)
    return replace(
        moved,
        code=entry.number,
        name=entry.name,
        message=WHEN.get(code, "") + moved.message,
        related=tuple(sorted({*moved.related, moved.code})),
        help=shown.help or general,
    )


def _schedules(verdict: Verdict) -> int:
    """Return how many executions were decided; runs of one fixed order count once."""
    return verdict.evidence.schedules if verdict.evidence.engine == "explorer" else 1
