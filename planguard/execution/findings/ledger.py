"""The approximation ledger applied to a verdict: what spoils SAFE, what a witness (ADR 0007).

An *under*-approximation leaves executions out: a SAFE that rests on it is UNKNOWN. An
*over*-approximation admits executions that may not exist: a finding whose witness touches it is
not certain, and when no other finding makes the outcome, the outcome is UNKNOWN with the
candidate attached.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.catalog import report_order
from planguard.execution.findings.cause import make_finding
from planguard.semantics.gloo import MONITORED
from planguard.semantics.model import find_model
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from planguard.verdict import Approximation, Finding, Verdict


def apply_ledger(verdict: Verdict) -> Verdict:
    """Return the verdict with each approximation marked as used or not, lowered where needed."""
    if not verdict.approximations or verdict.unknown:
        return verdict
    if verdict.safe:
        ledger = tuple(replace(a, used=_spoils(a, verdict)) for a in verdict.approximations)
        return _lower(verdict, ledger) if any(a.used for a in ledger) else verdict
    makers = [f for f in verdict.findings if f.severity == "error" and f.code[2] in "0124"]
    doubts = [a for a in verdict.approximations if a.direction == "over"]
    orders = {id(a) for a in doubts if _admits_orders_only(a, verdict)}

    def spoils(entry: Approximation, finding: Finding) -> bool:
        # What holds in every order that is admitted holds in those that exist.
        proved = id(entry) in orders and finding.certainty == "all-executions"
        return _touches(entry, finding) and not proved

    ledger = tuple(
        replace(a, used=a in doubts and any(spoils(a, f) for f in makers))
        for a in verdict.approximations
    )
    if makers and all(any(spoils(a, f) for a in doubts) for f in makers):
        return _lower(verdict, ledger)
    return replace(verdict, approximations=ledger)


def is_empty(verdict: Verdict) -> bool:
    """Tell whether a plan is not decided since there is nothing to check, and for nothing else."""
    return verdict.unknown and {one.code for one in verdict.findings} == {"PG910"}


def with_guards(verdict: Verdict) -> Verdict:
    """Name, where there is nothing to check, what keeps the ranks from communicating.

    That executions are missing says more then than that there is nothing: the line that decides.
    """
    if not is_empty(verdict):
        return verdict
    ledger = tuple(replace(a, used=a.direction == "under") for a in verdict.approximations)
    reasons = tuple(a.message for a in ledger if a.used)
    return replace(verdict, approximations=ledger, reasons=(*verdict.reasons, *reasons))


ORDERS = frozenset({"host-threads"})
"""Kinds of entries that admit further orders of the same actions, and no other actions."""


def _admits_orders_only(entry: Approximation, verdict: Verdict) -> bool:
    """Tell whether an entry admits orders, and no other one says that it leaves some out."""
    return entry.kind in ORDERS and not any(
        other.kind == entry.kind and other.direction == "under" for other in verdict.approximations
    )


def _spoils(approximation: Approximation, verdict: Verdict) -> bool:
    """Tell whether SAFE rests on an entry: executions are missing that the model would have."""
    if approximation.kind == MONITORED and not find_model(verdict.model).counts_messages:
        return False
    return approximation.direction == "under"


CODES = {"data-dependent-value": "PG505", "data-dependent-branch": "PG110"}
"""Entries of a capture that are findings of their own, by kind."""


def with_captured(verdict: Verdict) -> Verdict:
    """Return the verdict with a warning for every value that a capture saw the program decide on.

    The entry in the ledger says what that does to the outcome; the finding says where.
    """
    known = {(f.code, f.message) for f in verdict.findings}
    said = dict.fromkeys(
        (CODES[a.kind], a.message) for a in verdict.approximations if a.kind in CODES
    )
    more = [
        make_finding(code, text, severity="warning", certainty="some-execution", evidence="T")
        for code, text in said
        if (code, text) not in known
    ]
    if not more:
        return verdict
    found = sorted([*verdict.findings, *more], key=lambda f: report_order(f.severity, f.code))
    return replace(verdict, findings=tuple(found))


def _touches(approximation: Approximation, finding: Finding) -> bool:
    places = set(finding.witness.actions) if finding.witness else set()
    for location in (finding.primary, *finding.related_actions):
        if location is not None:
            places.add((location.rank, location.action))
    if approximation.scope == "onward":
        first = dict(sorted(set(approximation.actions), reverse=True))
        is_known = all(action < first.get(rank, action + 1) for rank, action in places)
        return not (is_known and places and finding.code in BOTH_ISSUED)
    if approximation.scope == "plan" or not approximation.actions:
        return True
    return bool(set(approximation.actions) & places)


BOTH_ISSUED = frozenset({"PG201", "PG202", "PG203", "PG204", "PG205", "PG206"})
"""Findings of calls that were issued and disagree: what their ranks do behind them mends nothing.

A call that nobody issues is no such finding: a rank that goes on otherwise may issue it.
"""


def _lower(verdict: Verdict, ledger: tuple[Approximation, ...]) -> Verdict:
    reasons = tuple(f"rests on an approximation: {a.message}" for a in ledger if a.used)
    return replace(
        verdict,
        outcome=Outcome.UNKNOWN,
        models={**verdict.models, verdict.model: Outcome.UNKNOWN},
        approximations=ledger,
        proved=(),
        reasons=(*verdict.reasons, *reasons),
        findings=tuple(
            replace(f, severity="warning", certainty="some-execution")
            if f.code[2] in "0124" or _is_doubted(f, ledger)
            else f
            for f in verdict.findings
        ),
    )


def _is_doubted(finding: Finding, ledger: tuple[Approximation, ...]) -> bool:
    """Tell whether a hazard (PG3xx) may be one of executions that do not exist.

    A wait that is missing in a recording that was cut may not be missing in the program.
    """
    doubts = [a for a in ledger if a.direction == "over"]
    return finding.code[2] == "3" and any(_touches(a, finding) for a in doubts)
