"""One finding as a SARIF 2.1.0 result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from planguard.explain.lines import Style, render
from planguard.explain.prose import FindingText
from planguard.explain.reasons import around, name, sentence
from planguard.plan.pointers import line_of
from planguard.report.places import Places, Spot
from planguard.words import clean

if TYPE_CHECKING:
    from planguard.plan.pointers import Step
    from planguard.report import Result
    from planguard.verdict import Edit, Finding, Location, Repair, Witness, WitnessStep

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
    return {"uri": quote(file.as_posix()), "uriBaseId": "%SRCROOT%"}


class ResultWriter:
    """Writes the findings of one plan.

    Attributes:
        dropped: What was left out to stay within the limits of consumers.
    """

    def __init__(self, result: Result) -> None:
        self.input, self.places = result, Places(result)
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
        if finding.help:
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
        """Return a verified repair whose edits are whole lines of the plan file."""
        plan = self.input.plan
        if repair.applicability != "verified" or plan is None or plan.file is None:
            return []
        if not repair.edits or plan.file.endswith(".gz"):
            return []
        lines = plan.text.decode().split("\n")
        edits = [_replacement(lines, plan.text, edit) for edit in repair.edits]
        if not all(edits):
            return []
        change = {"artifactLocation": artifact(self.input.path), "replacements": edits}
        return [{"description": message(repair.text), "artifactChanges": [change]}]


def _logical(rank: int, action: int) -> dict[str, str]:
    return {"fullyQualifiedName": f"rank{rank}/action{action}", "kind": "member"}


def _replacement(lines: list[str], text: bytes, edit: Edit) -> dict[str, Any] | None:
    """Return an edit as a region of lines; None where the action does not stand on its own line."""
    steps = _steps(json.loads(text), edit.pointer)
    number = None if steps is None else line_of(text, steps)
    if number is None:
        return None
    row = lines[number - 1]
    indent = len(row) - len(row.lstrip())
    try:
        length = json.JSONDecoder().raw_decode(row[indent:])[1]
    except ValueError:
        return None  # the action goes over several lines
    value = json.dumps(edit.value)
    if edit.op == "remove":
        if row[indent + length :].strip() != ",":
            return None  # the last of its list: a comma on the line before would have to go
        region = {"startLine": number, "startColumn": 1, "endLine": number + 1, "endColumn": 1}
        return {"deletedRegion": region}
    if edit.op == "add":
        region = {"startLine": number, "startColumn": 1, "endLine": number, "endColumn": 1}
        return {"deletedRegion": region, "insertedContent": {"text": f"{' ' * indent}{value},\n"}}
    begin, end = indent + 1, indent + length + 1
    region = {"startLine": number, "startColumn": begin, "endLine": number, "endColumn": end}
    return {"deletedRegion": region, "insertedContent": {"text": value}}


def _steps(document: Any, pointer: str) -> list[Step] | None:
    """Resolve a JSON Pointer (RFC 6901); None if it names nothing."""
    steps: list[Step] = []
    for part in pointer.split("/")[1:]:
        key: Step = part.replace("~1", "/").replace("~0", "~")
        try:
            key = int(part) if isinstance(document, list) else key
            document = document[key]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
        steps.append(key)
    return steps
