"""Cause: one reason why an execution is stuck or wrong, with the finding that says it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planguard.catalog import lookup
from planguard.execution.findings.help import HELP
from planguard.verdict import Finding, Outcome

if TYPE_CHECKING:
    from planguard.execution.findings.reason import Reason
    from planguard.execution.findings.stuck import Place
    from planguard.execution.running.executor import Execution
    from planguard.verdict import Verdict


@dataclass(frozen=True)
class Cause:
    """One root cause: its finding, and what witness and folding need.

    Attributes:
        finding: The finding without witness.
        blocked: Places at which ranks stand.
        owed: Places that would free them.
        shape: What makes two causes the same bug on other ranks.
        matches: Rounds and pairs the cause waits for, as ``execution`` numbers them.
        execution: The run that shows the cause.
        stands: Places at which the run itself stands, when ``blocked`` names what is in front.
        absent: Ranks that owe a call, of an orphan.
        apart: One side of the pair is in a batch, the other is not: they never meet.
    """

    finding: Finding
    blocked: tuple[Place, ...]
    owed: tuple[Place, ...]
    shape: tuple[object, ...]
    matches: tuple[int, ...]
    execution: Execution | None = None
    stands: tuple[Place, ...] = ()
    absent: tuple[int, ...] = ()
    apart: bool = False


def make_finding(code: str, message: str, **fields: object) -> Finding:
    """Return a finding with the name, severity and evidence of its catalog entry."""
    entry = lookup(code)
    defaults: dict[str, object] = {
        "severity": entry.severity,
        "certainty": "all-executions",
        "evidence": "P",
        "help": HELP.get(code, ""),
    }
    return Finding(code=code, name=entry.name, message=message, **{**defaults, **fields})  # type: ignore[arg-type]


def open_finding(reason: Reason) -> Finding:
    """Return the finding that says why something was not decided."""
    return make_finding(
        reason.code,
        reason.message,
        severity="warning",
        certainty="some-execution",
        help=reason.help,
    )


def left_open(verdict: Verdict, finding: Finding) -> Verdict:
    """Leave a SAFE verdict undecided, with the finding that says why."""
    return replace(
        verdict,
        outcome=Outcome.UNKNOWN,
        models={**verdict.models, verdict.model: Outcome.UNKNOWN},
        findings=(finding, *verdict.findings),
        complete=False,
        proved=(),
        safe_iff=(),
        reasons=(*verdict.reasons, finding.message),
        certificate=None,
    )


def shape_of(execution: Execution, place: Place) -> tuple[int, int]:
    """Return what a place has in common with its copies on equal ranks: program and entry."""
    return execution.plan.code.rank_program[place.rank], place.entry
