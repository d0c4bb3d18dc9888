"""Verdict and plan -> files: one reporter per format, fed with results as they are decided."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, Protocol

from planguard.errors import UsageError

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
    """

    path: str
    plan: Plan | None
    verdict: Verdict | None
    error: PlanError | None
    seconds: float


class Reporter(Protocol):
    """Writes results one by one."""

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


def make_reporter(name: str, out: IO[str], *, many: bool, args: Any) -> Reporter:
    """Return the reporter of a format.

    Args:
        name: Format name.
        out: Where to write.
        many: Whether several inputs were given.
        args: Parsed command line (quiet, reproducible, color ...).

    Raises:
        UsageError: If there is no such format.
    """
    home = _HOMES.get(name)
    if home is None:
        raise UsageError(f"unknown format {name!r}", hint="formats: " + ", ".join(_HOMES))
    reporter: Reporter = getattr(import_module(home[0]), home[1])(out, many=many, args=args)
    return reporter
