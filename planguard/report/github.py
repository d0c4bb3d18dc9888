"""``github``: annotations of a workflow run, one line per finding; the verdict goes to stderr."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING

from planguard.explain.lines import Style, render
from planguard.explain.reasons import around
from planguard.report.places import Places, Spot
from planguard.report.text import last_line, shown_findings
from planguard.words import clean

if TYPE_CHECKING:
    from planguard.report import ReportOptions, Result
    from planguard.verdict import Finding, Verdict

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def escape_data(text: str) -> str:
    """Escape the message of a workflow command."""
    return "".join(_DATA.get(c, c) for c in text)


def escape_property(text: str) -> str:
    """Escape a property of a workflow command."""
    return "".join(_PROPERTY.get(c, c) for c in clean(text))


class GithubReporter:
    """One workflow command per finding."""

    def __init__(self, out: IO[str], options: ReportOptions) -> None:
        self._out, self._options = out, options
        self._results: list[Result] = []

    def add(self, result: Result) -> None:
        """Write the commands of one input."""
        self._results.append(result)
        verdict = result.verdict
        if verdict is None:
            code, message = result.refusal
            hint = "" if result.error is None else result.error.hint
            self._write("error", Spot(result.path), code, [message, hint])
            return
        places = Places(result.path, result.plan)
        for finding in shown_findings(verdict):
            unknown = verdict.unknown and finding.code.startswith("PG9")
            title = "UNKNOWN" if unknown else f"{finding.code} {finding.name}"
            command = COMMANDS[finding.severity]
            self._write(command, places.spot(finding.primary), title, _told(finding, verdict))
        self._out.flush()

    def _write(self, command: str, spot: Spot, title: str, lines: list[str]) -> None:
        properties = [f"file={escape_property(spot.file)}"]
        if spot.line is not None:
            properties.append(f"line={spot.line}")
        properties.append(f"title={escape_property(title)}")
        message = escape_data("\n".join(clean(text) for text in lines if text))
        self._out.write(f"::{command} {','.join(properties)}::{message}\n")

    def close(self) -> None:
        """Write the verdict where it does not disturb the commands."""
        sys.stderr.write(render([last_line(self._results, self._options)], Style()))


def _told(finding: Finding, verdict: Verdict) -> list[str]:
    lines = [finding.message]
    if finding.cycle and finding.subkind != "orphan":
        lines.append(f"cycle: {around(finding.cycle)}")
    if finding.primary is not None:
        lines.append(f"at: rank {finding.primary.rank}, action {finding.primary.action}")
    lines += finding.notes[:1]
    lines.append(f"model: {verdict.model}")
    if finding.help:
        lines.append(f"help: {finding.help} (not verified)")
    return lines
