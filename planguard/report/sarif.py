"""``sarif``: SARIF 2.1.0 (OASIS), one run, one thread flow per rank."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from planguard.catalog import CATALOG, SEVERITIES
from planguard.explain.codes import page
from planguard.report.sarifdoc import ResultWriter, artifact, message
from planguard.result import tool_version
from planguard.words import plural

if TYPE_CHECKING:
    from planguard.report import ReportOptions, Result
    from planguard.verdict import Verdict

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MAX_RESULTS = 25_000
"""Results per run that GitHub takes; the most severe are kept."""


class SarifReporter:
    """One log file with one run."""

    def __init__(self, out: IO[str], options: ReportOptions) -> None:
        self._out = out
        self._results: list[dict[str, Any]] = []
        self._notifications: list[dict[str, Any]] = []
        self._is_successful = True

    def add(self, result: Result) -> None:
        """Keep the results of one input."""
        verdict = result.verdict
        if verdict is None:
            code, text = result.refusal
            self._is_successful = False
            self._notify("error", f"{code}: {text}", result.path, code)
            return
        writer = ResultWriter(result)
        for finding in verdict.findings:
            if CATALOG[finding.code].outcome != "unknown":
                self._results.append(writer.result(finding))
        for dropped in writer.dropped:
            self._notify("note", dropped, result.path)
        if verdict.unknown:
            self._undecided(verdict, result.path)

    def _undecided(self, verdict: Verdict, path: str) -> None:
        reasons = [f for f in verdict.findings if CATALOG[f.code].outcome == "unknown"]
        for finding in reasons:
            self._notify("warning", f"UNKNOWN: {finding.message}", path, finding.code)
        if not reasons:
            self._notify("warning", "UNKNOWN: " + "; ".join(verdict.reasons), path)

    def _notify(self, level: str, text: str, path: str, code: str | None = None) -> None:
        note: dict[str, Any] = {
            "level": level,
            "message": message(text),
            "locations": [{"physicalLocation": {"artifactLocation": artifact(path)}}],
        }
        if code is not None:
            note["descriptor"] = {"id": code}
        self._notifications.append(note)

    def close(self) -> None:
        """Write the log."""
        if len(self._results) > MAX_RESULTS:
            dropped = len(self._results) - MAX_RESULTS
            self._results.sort(key=lambda found: SEVERITIES.index(found["level"]))
            del self._results[MAX_RESULTS:]
            self._notifications.append(
                {"level": "note", "message": message(f"{plural(dropped, 'result')} left out")}
            )
        used = sorted({found["ruleId"] for found in self._results})
        place = {number: index for index, number in enumerate(used)}
        for found in self._results:
            found["ruleIndex"] = place[found["ruleId"]]
        log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [self._run(used)]}
        self._out.write(json.dumps(log, sort_keys=True, indent=1) + "\n")

    def _run(self, used: list[str]) -> dict[str, Any]:
        return {
            "tool": {
                "driver": {
                    "name": "PlanGuard",
                    "version": tool_version(),
                    "rules": [_rule(number) for number in used],
                }
            },
            "columnKind": "unicodeCodePoints",
            "invocations": [
                {
                    "executionSuccessful": self._is_successful,
                    "toolExecutionNotifications": self._notifications,
                }
            ],
            "results": self._results,
        }


def _rule(number: str) -> dict[str, Any]:
    code, shown = CATALOG[number], page(number)
    return {
        "id": number,
        "name": code.name,
        "shortDescription": {"text": code.summary},
        "help": {"text": shown.plain, "markdown": shown.text},
        "defaultConfiguration": {"level": code.severity},
        "properties": {"tags": ["planguard", code.family]},
    }
