"""``junit``: one test case per plan and model."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from planguard.explain.answer import explain_text
from planguard.explain.lines import Style, render
from planguard.report.policy import failing, passes
from planguard.report.text import concise_line, refusal_lines
from planguard.words import clean

if TYPE_CHECKING:
    from planguard.report import ReportOptions, Result
    from planguard.verdict import Verdict


class JunitReporter:
    """One test suite."""

    def __init__(self, out: IO[str], options: ReportOptions) -> None:
        self._out, self._options = out, options
        self._cases: list[str] = []
        self._seconds = 0.0
        self._numbers = {"failures": 0, "errors": 0, "skipped": 0}

    def add(self, result: Result) -> None:
        """Keep the test cases of one input."""
        self._seconds += result.seconds
        verdict = result.verdict
        if verdict is None:
            code, message = result.refusal
            text = render(refusal_lines(result, Style().width), Style())
            self._case("none", result, self._element("error", code, message, text))
            return
        self._case(verdict.model, result, self._body(result, verdict))
        for name, outcome in verdict.models.items():
            if name != verdict.model:
                codes = ", ".join(verdict.model_codes.get(name, ()))
                said = f"{outcome.value} {codes}".rstrip()
                self._case(name, result, f"<system-out>{_text(said)}</system-out>")

    def _body(self, result: Result, verdict: Verdict) -> str:
        settings = self._options.settings
        found = failing(verdict, settings)
        kind = found[0].code if found else verdict.outcome.value
        if not passes(verdict, settings, is_complete=result.is_complete):
            said = found[0].message if found else "more findings than were explained"
            return self._element("failure", kind, said, explain_text(verdict, result.plan))
        if verdict.unknown:
            reasons = "\n".join(verdict.reasons)
            if self._options.allow_unknown:
                return self._element("skipped", None, "not decided", reasons)
            return self._element("error", "UNKNOWN", "not decided", reasons)
        lines = [concise_line(result.path, finding) for finding in verdict.findings]
        text = render(lines, Style())
        return f"<system-out>{_text(text)}</system-out>" if text else ""

    def _element(self, name: str, kind: str | None, message: str, text: str) -> str:
        self._numbers[{"failure": "failures", "error": "errors"}.get(name, name)] += 1
        typed = "" if kind is None else f" type={_attribute(kind)}"
        return f"<{name}{typed} message={_attribute(message)}>{_text(text)}</{name}>"

    def _case(self, model: str, result: Result, body: str) -> None:
        time = "" if self._options.reproducible else f' time="{result.seconds:.3f}"'
        head = f"<testcase classname={_attribute(model)} name={_attribute(result.path)}{time}"
        self._cases.append(f"{head}>{body}</testcase>" if body else f"{head}/>")

    def close(self) -> None:
        """Write the suite."""
        numbers = "".join(f' {name}="{number}"' for name, number in self._numbers.items())
        time = "" if self._options.reproducible else f' time="{self._seconds:.3f}"'
        suite = f'<testsuite name="planguard" tests="{len(self._cases)}"{numbers}{time}>'
        body = "".join(f"  {case}\n" for case in self._cases)
        self._out.write(f'<?xml version="1.0" encoding="utf-8"?>\n{suite}\n{body}</testsuite>\n')


def _attribute(text: str) -> str:
    return quoteattr(clean(text))


def _text(text: str) -> str:
    """Escape text of several lines, and what XML 1.0 cannot hold."""
    return escape("\n".join(map(clean, text.split("\n"))))
