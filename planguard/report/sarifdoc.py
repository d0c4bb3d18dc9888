"""One finding as a SARIF 2.1.0 result."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from planguard.errors import PlanError
from planguard.explain.lines import Style, render
from planguard.explain.prose import FindingText
from planguard.explain.reasons import around, name, sentence
from planguard.repair.patch import apply_text, hunks
from planguard.report.places import Places, Spot
from planguard.words import clean

if TYPE_CHECKING:
    from planguard.report import Result
    from planguard.verdict import Finding, Location, Repair, Witness, WitnessStep

MAX_FLOW = 10_000
"""Thread-flow locations per result that GitHub takes; it shows the first 1,000."""
MAX_LOCATIONS = 1_000
"""Locations per result that GitHub takes; it shows the first 100."""


def message(text: str, markdown: str | None = None) -> dict[str, str]:
    """Return a SARIF message; what a terminal would obey is escaped."""
    plain = {"text": "\n".join(map(clean, text.split("\n")))}
    return plain if markdown is None else {**plain, "markdown": markdown}


def artifact(path: str) -> dict[str, str]:
    """Return the location of a file: relative to the checkout where it is inside it."""
    file = Path(path)
    if file.is_absolute():
        if not file.is_relative_to(Path.cwd()):
            return {"uri": file.as_uri()}
        file = file.relative_to(Path.cwd())
    return {"uri": quote(os.fsencode(file.as_posix())), "uriBaseId": "%SRCROOT%"}


class ResultWriter:
    """Writes the findings of one plan.

    Attributes:
        dropped: What was left out to stay within the limits of consumers.
    """

    def __init__(self, result: Result) -> None:
        self.input, self.places = result, Places(result.path, result.plan)
        self.dropped: list[str] = []

    def result(self, finding: Finding) -> dict[str, Any]:
        """Return the SARIF result of a finding."""
        verdict = self.input.verdict
        assert verdict is not None  # noqa: S101  only verdicts have findings
        written: dict[str, Any] = {
            "ruleId": finding.code,
            "level": finding.severity,
            "message": message(self._text(finding), self._markdown(finding)),
            "locations": [self._location(finding.primary)],
            "properties": {
                "certainty": finding.certainty,
                "evidence": finding.evidence,
                "model": verdict.model,
                "outcome": verdict.outcome.value,
                "ranks": list(finding.ranks[:MAX_LOCATIONS]),
            },
        }
        related = self._related(finding)
        if related:
            written["relatedLocations"] = related
        if finding.witness is not None and finding.witness.steps:
            written["codeFlows"] = [self._flow(finding.witness)]
        fixes = [fix for repair in finding.fixes for fix in self._fix(repair)]
        if fixes:
            written["fixes"] = fixes
        if finding.fingerprint:
            written["partialFingerprints"] = {"planguard/v1": finding.fingerprint}
        if finding.suppressed is not None:
            reason = f"{finding.suppressed['by']}: {finding.suppressed['reason']}"
            written["suppressions"] = [{"kind": "external", "justification": reason}]
        return written

    def _text(self, finding: Finding) -> str:
        lines = [finding.message]
        if finding.cycle and finding.subkind != "orphan":
            lines.append(f"cycle: {around(finding.cycle)}")
        verified = [repair for repair in finding.fixes if repair.applicability == "verified"]
        if verified:
            lines += [f"help: {repair.text} (verified)" for repair in verified]
        elif finding.help:
            lines.append(f"help: {finding.help} (not verified)")
        return "\n".join(lines)

    def _markdown(self, finding: Finding) -> str:
        verdict = self.input.verdict
        assert verdict is not None  # noqa: S101  only verdicts have findings
        text = FindingText(
            finding, verdict, self.input.plan, name=self.input.path, tells_conditions=False
        )
        return f"```text\n{render(text.lines(Style().width), Style())}```"

    # --- locations -------------------------------------------------------------------------------

    def _physical(self, spot: Spot) -> dict[str, Any]:
        place: dict[str, Any] = {"artifactLocation": artifact(spot.file)}
        if spot.line is not None:
            place["region"] = {"startLine": spot.line}
        return place

    def _location(self, place: Location | None, said: str = "") -> dict[str, Any]:
        written: dict[str, Any] = {"physicalLocation": self._physical(self.places.spot(place))}
        if place is not None:
            written["logicalLocations"] = [_logical(place.rank, place.action)]
            written["message"] = message(f"{name(place)} {place.text or place.op} {said}".strip())
        return written

    def _related(self, finding: Finding) -> list[dict[str, Any]]:
        """Return the members of the cycle with their reasons, then the other places."""
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for edge in finding.cycle:
            key = (edge.at.rank, edge.at.action)
            found.setdefault(key, self._location(edge.at, sentence(edge)))
        for place in finding.related_actions:
            found.setdefault((place.rank, place.action), self._location(place))
        if len(found) > MAX_LOCATIONS:
            self.dropped.append(f"{finding.code}: {len(found) - MAX_LOCATIONS:,} related places")
        kept = list(found.values())[:MAX_LOCATIONS]
        return [{"id": number, **place} for number, place in enumerate(kept, 1)]

    def _flow(self, witness: Witness) -> dict[str, Any]:
        """Return the schedule: one thread flow per rank, ordered by the global step."""
        steps = witness.steps[:MAX_FLOW]
        if len(steps) < len(witness.steps):
            self.dropped.append(f"{len(witness.steps) - MAX_FLOW:,} steps of {witness.id}")
        flows: dict[int, list[dict[str, Any]]] = {}
        for step in steps:
            flows.setdefault(step.rank, []).append(self._step(step))
        return {
            "message": message(f"witness {witness.id}, which ends in: {witness.end}"),
            "threadFlows": [
                {"id": f"rank {rank}", "locations": flows[rank]} for rank in sorted(flows)
            ],
        }

    def _step(self, step: WitnessStep) -> dict[str, Any]:
        plan = self.input.plan
        text = "" if plan is None else plan.describe_action(step.rank, step.action)
        place = {
            "physicalLocation": self._physical(self.places.at(step.rank, step.action)),
            "logicalLocations": [_logical(step.rank, step.action)],
            "message": message(f"{step.event} r{step.rank}#{step.action} {text}".rstrip()),
        }
        return {"executionOrder": step.step, "location": place}

    # --- fixes -----------------------------------------------------------------------------------

    def _fix(self, repair: Repair) -> list[dict[str, Any]]:
        """Return a verified repair as lines of the plan file that become others."""
        plan = self.input.plan
        if repair.applicability != "verified" or plan is None or plan.file is None:
            return []
        if not repair.edits or plan.file.endswith(".gz"):
            return []
        try:
            changed = apply_text(plan.text, repair.edits)
        except PlanError:
            return []  # not edits of this file
        edits = _replacements(plan.text.decode(), changed.decode())
        change = {"artifactLocation": artifact(self.input.path), "replacements": edits}
        return [{"description": message(repair.text), "artifactChanges": [change]}]


def _logical(rank: int, action: int) -> dict[str, str]:
    return {"fullyQualifiedName": f"rank{rank}/action{action}", "kind": "member"}


def _replacements(before: str, after: str) -> list[dict[str, Any]]:
    """Return what turns one text into another, as regions of whole lines of the first."""
    old, new = before.split("\n"), after.split("\n")
    found: list[dict[str, Any]] = []
    for hunk in hunks(old, new):
        text = "".join(f"{row}\n" for row in hunk.lines)
        region = {"startLine": hunk.first + 1, "startColumn": 1}
        end = {"endLine": hunk.last + 1, "endColumn": 1}
        if hunk.last == len(old):  # there is no line after the last
            region, text = _at_the_end(old, hunk.first, text)
            end = {"endLine": len(old), "endColumn": len(old[-1]) + 1}
        inserted = {"insertedContent": {"text": text}} if text else {}
        found.append({"deletedRegion": {**region, **end}, **inserted})
    return found


def _at_the_end(old: list[str], first: int, text: str) -> tuple[dict[str, int], str]:
    """Return where a change begins that goes to the end of a text, and what is put there."""
    if first == len(old) or not text:  # the line break in front of it belongs to the change
        where = {"startLine": first, "startColumn": len(old[first - 1]) + 1}
        return where, "\n" + text[:-1] if text else ""
    return {"startLine": first + 1, "startColumn": 1}, text[:-1]
