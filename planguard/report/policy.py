"""What settings and a baseline make of a verdict: severities, suppressions, and the gate.

The outcome never changes here. A suppressed finding stays in every result file with its reason,
and its number is told (PG908).
"""

from __future__ import annotations

import fnmatch
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.catalog import CATALOG, SEVERITIES, report_order
from planguard.config import ALL, codes_of
from planguard.report.baseline import with_fingerprints
from planguard.verdict import Finding
from planguard.words import listed, plural

if TYPE_CHECKING:
    from planguard.config import Settings
    from planguard.plan.plan import Plan
    from planguard.report.baseline import Baseline, Key
    from planguard.verdict import Verdict

DECIDING = ("PG0", "PG1", "PG2", "PG3", "PG4")
"""Families of which a finding can make a plan unsafe."""


def apply_policy(
    verdict: Verdict,
    path: str,
    settings: Settings,
    *,
    plan: Plan | None = None,
    baseline: Baseline | None = None,
) -> Verdict:
    """Return the verdict with severities and suppressions of the settings and the baseline.

    Args:
        verdict: As the check gave it.
        path: The plan, as given: per-plan ignores and baselines name it.
        settings: What holds.
        plan: The plan, for fingerprints.
        baseline: Accepted findings.
    """
    verdict = with_fingerprints(verdict, plan)
    found = [_judged(finding, path, settings) for finding in verdict.findings]
    stale: list[Finding] = []
    if baseline is not None:
        allowed = baseline.of_plan(path)
        found = [_accepted(finding, path, baseline, allowed) for finding in found]
        stale = _stale(allowed, baseline)
    found += [*_counted(found), *stale]
    found.sort(key=lambda finding: report_order(finding.severity, finding.code))
    return replace(verdict, findings=tuple(found))


def _judged(finding: Finding, path: str, settings: Settings) -> Finding:
    """Return the finding with the severity and the suppression of the settings."""
    judged = replace(finding, severity=_severity(finding, settings))
    if judged.suppressed is not None or _is_of_the_tool(judged):
        return judged
    reason = _silenced(judged, path, settings)
    return replace(judged, suppressed={"by": "config", "reason": reason}) if reason else judged


def _accepted(finding: Finding, path: str, baseline: Baseline, allowed: Counter[Key]) -> Finding:
    """Return the finding suppressed if the baseline still allows one like it."""
    key = (baseline.plan_key(path), finding.code, finding.fingerprint)
    if finding.suppressed is not None or allowed[key] < 1:
        return finding
    allowed[key] -= 1
    said = {"by": "baseline", "reason": f"accepted in {baseline.file.name}"}
    return replace(finding, suppressed=said)


def _is_of_the_tool(finding: Finding) -> bool:
    """Tell whether a finding says what was not decided: that cannot be silenced."""
    return finding.code.startswith("PG9")


def _severity(finding: Finding, settings: Settings) -> str:
    """Return the severity of a finding; the last setting that names its code holds."""
    level = finding.severity
    for selector, wanted in settings.severity.items():
        if finding.code in codes_of(selector):
            level = wanted
    return level


def _silenced(finding: Finding, path: str, settings: Settings) -> str:
    """Return why the settings suppress a finding, or nothing."""
    for entry in settings.per_plan_ignores:
        if finding.code in codes_of(entry.code) and _matches(path, entry.pattern, settings.folder):
            return entry.reason
    if any(finding.code in codes_of(selector) for selector in settings.ignore):
        return f"ignored by {settings.origin('ignore')}"
    if not any(finding.code in codes_of(selector) for selector in settings.select):
        return f"not selected by {settings.origin('select')}"
    return ""


def _matches(path: str, pattern: str, folder: Path | None) -> bool:
    names = {Path(path).as_posix()}
    if folder is not None:
        names.add(Path(os.path.relpath(Path(path).absolute(), folder.absolute())).as_posix())
    return any(fnmatch.fnmatchcase(name, pattern) for name in names)


def _counted(findings: list[Finding]) -> list[Finding]:
    """Return PG908 when anything was suppressed."""
    by = Counter(f.suppressed["by"] for f in findings if f.suppressed is not None)
    if not by:
        return []
    parts = listed([f"{number} by {who}" for who, number in sorted(by.items())])
    said = f"{plural(sum(by.values()), 'finding')} suppressed: {parts}"
    kept = "the outcome stays what it is; --format json shows what was suppressed, and why"
    return [_note("PG908", said, kept)]


def _stale(allowed: Counter[Key], baseline: Baseline) -> list[Finding]:
    """Return PG909 for every entry of the baseline that no longer occurs."""
    stale = []
    for (plan, code, identity), number in sorted(allowed.items()):
        if number > 0:
            times = "" if number == 1 else f", {number} times"
            stale.append(
                _note(
                    "PG909",
                    f"entry of {baseline.file.name} no longer occurs{times}: {code} "
                    f"({CATALOG[code].name}) in {plan}, {identity}",
                )
            )
    return stale


def _note(code: str, message: str, *notes: str) -> Finding:
    return Finding(
        code=code,
        name=CATALOG[code].name,
        severity=CATALOG[code].severity,
        certainty="all-executions",
        evidence="P",
        message=message,
        notes=notes,
    )


# --- the gate ------------------------------------------------------------------------------------


def failing(verdict: Verdict, settings: Settings) -> list[Finding]:
    """Return the findings that fail the gate: at or above ``fail-on`` and not suppressed.

    Performance findings (PG6xx) fail it only when the settings name them.
    """
    limit = SEVERITIES.index(settings.fail_on)
    return [
        finding
        for finding in verdict.findings
        if finding.suppressed is None
        and SEVERITIES.index(finding.severity) <= limit
        and (not finding.code.startswith("PG6") or _is_named(finding.code, settings))
        and not _is_of_the_tool(finding)
    ]


def _is_named(code: str, settings: Settings) -> bool:
    selectors = [*settings.select, *settings.severity]
    return any(code in codes_of(s) for s in selectors if s.upper() != ALL)


def asks_for_rules(settings: Settings) -> bool:
    """Tell whether the settings name a performance rule (PG6xx), so that rules are to be run."""
    rules = [code for code in CATALOG if code.startswith("PG6")]
    return bool(settings.rules) or any(_is_named(code, settings) for code in rules)


def passes(verdict: Verdict, settings: Settings, *, is_complete: bool = True) -> bool:
    """Tell whether a decided verdict passes the gate.

    Args:
        verdict: After ``apply_policy``.
        settings: What holds.
        is_complete: The findings are all there are. An unsafe plan of which only the first ones
            were explained does not pass because these are suppressed.
    """
    if failing(verdict, settings):
        return False
    if not verdict.unsafe:
        return True
    deciding = [f for f in verdict.findings if f.code.startswith(DECIDING)]
    accepted = any(f.suppressed is not None or f.severity != "error" for f in deciding)
    return accepted and is_complete
