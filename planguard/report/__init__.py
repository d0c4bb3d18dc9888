"""Verdict and plan -> files: one reporter per format, fed with results as they are decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import IO, TYPE_CHECKING, Protocol

from planguard.config import Settings
from planguard.errors import UsageError
from planguard.explain.lines import Style

if TYPE_CHECKING:
    from planguard.errors import PlanError
    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict


@dataclass(frozen=True)
class Result:
    """What one input came to.

    Attributes:
        path: The input as given.
        plan: The plan, or None when it could not be read.
        verdict: The verdict, or None when it could not be read.
        error: Why it could not be read.
        seconds: Wall-clock time of reading and checking.
        crash: The exception that ended the check of this input: a defect of PlanGuard.
        is_complete: The findings are all there are, not only the first that were explained.
    """

    path: str
    plan: Plan | None = None
    verdict: Verdict | None = None
    error: PlanError | None = None
    seconds: float = 0.0
    crash: Exception | None = None
    is_complete: bool = True

    @property
    def refusal(self) -> tuple[str, str]:
        """Code and message of an input without a verdict."""
        if self.error is not None:
            return self.error.code, self.error.message
        return "PG999", f"PlanGuard failed: {type(self.crash).__name__}: {self.crash}"


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """How results are written.

    Attributes:
        many: Several inputs were given, so one document holds several results.
        quiet: Only the verdict line (``text`` and ``concise``).
        reproducible: Leave out times, so that equal inputs give equal bytes.
        style: Width and colors of text.
        settings: What fails the gate.
        allow_unknown: UNKNOWN does not fail the gate.
    """

    many: bool = False
    quiet: bool = False
    reproducible: bool = False
    style: Style = field(default_factory=Style)
    settings: Settings = field(default_factory=Settings)
    allow_unknown: bool = False


class Reporter(Protocol):
    """Writes results one by one."""

    def __init__(self, out: IO[str], options: ReportOptions) -> None:
        """Take the stream to write to."""

    def add(self, result: Result) -> None:
        """Take one result; stream formats write it at once."""

    def close(self) -> None:
        """Write what can only be written at the end."""


_HOMES = {
    "text": ("planguard.report.text", "TextReporter"),
    "concise": ("planguard.report.text", "ConciseReporter"),
    "json": ("planguard.report.jsondoc", "JsonReporter"),
    "jsonl": ("planguard.report.jsondoc", "JsonLinesReporter"),
    "sarif": ("planguard.report.sarif", "SarifReporter"),
    "github": ("planguard.report.github", "GithubReporter"),
    "gitlab": ("planguard.report.gitlab", "GitlabReporter"),
    "junit": ("planguard.report.junit", "JunitReporter"),
}

FORMATS = tuple(_HOMES)


def make_reporter(name: str, out: IO[str], options: ReportOptions) -> Reporter:
    """Return the reporter of a format.

    Args:
        name: Format name.
        out: Where to write.
        options: How to write.

    Raises:
        UsageError: If there is no such format.
    """
    home = _HOMES.get(name)
    if home is None:
        raise UsageError(f"unknown format {name!r}", hint="formats: " + ", ".join(_HOMES))
    reporter: Reporter = getattr(import_module(home[0]), home[1])(out, options)
    return reporter
