"""``text`` and ``concise``: diagnostics for people; the last line is always the verdict."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from planguard.explain.answer import ROLE, body_lines, counts, sizes, verdict_line
from planguard.explain.lines import Line, flow, line, render
from planguard.report.policy import failing, passes
from planguard.verdict import Outcome
from planguard.words import clean, plural

if TYPE_CHECKING:
    from planguard.config import Settings
    from planguard.report import ReportOptions, Result
    from planguard.verdict import Finding, Verdict


class _Stream:
    """What both formats share: the results seen so far, and the last lines."""

    def __init__(self, out: IO[str], options: ReportOptions) -> None:
        self.out, self.options, self.style = out, options, options.style
        self.results: list[Result] = []

    def write(self, lines: list[Line]) -> None:
        """Write lines, unless only the verdict line was asked for."""
        if not self.options.quiet:
            self.out.write(render(lines, self.style))
            self.out.flush()

    def close(self) -> None:
        """Write what was checked, and the verdict."""
        self.write(summary(self.results, self.options))
        self.out.write(render([last_line(self.results, self.options)], self.style))
        self.out.flush()


class TextReporter(_Stream):
    """The full rendering."""

    _is_listing = False  # the last thing written was one line of a list

    def add(self, result: Result) -> None:
        """Write the diagnostics of one input."""
        self.results.append(result)
        verdict, width = result.verdict, self.style.width
        if verdict is not None and self.options.many and _is_plain(verdict):
            self.write([_short_ok(result)])
            self._is_listing = True
            return
        if verdict is None:
            lines = [*refusal_lines(result, width), ()]
        else:
            lines = body_lines(verdict, result.plan, width, name=result.path)
            lines += _outcome(result) if self.options.many else []
        self.write([(), *lines] if self._is_listing else lines)
        self._is_listing = False


class ConciseReporter(_Stream):
    """One line per finding."""

    def add(self, result: Result) -> None:
        """Write the lines of one input."""
        self.results.append(result)
        if result.verdict is None:
            code, message = result.refusal
            self.write(
                [line(f"{clean(result.path)}: ", ("error", f"error[{code}]"), f" {message}")]
            )
            return
        lines = [concise_line(result.path, finding) for finding in shown_findings(result.verdict)]
        self.write(lines)


def concise_line(path: str, finding: Finding) -> Line:
    """Return one finding in one line: ``plan.json:rank5:1284: error[PG001] ...``."""
    at = finding.primary
    where = clean(path) if at is None else f"{clean(path)}:rank{at.rank}:{at.action}"
    severity = (finding.severity, f"{finding.severity}[{finding.code}]")
    return line(f"{where}: ", severity, f" {finding.message}")


def shown_findings(verdict: Verdict) -> list[Finding]:
    """Return the findings that are not suppressed."""
    return [finding for finding in verdict.findings if finding.suppressed is None]


def refusal_lines(result: Result, width: int) -> list[Line]:
    """Return the diagnostic of an input that could not be read."""
    code, message = result.refusal
    out = flow(line(("error", f"error[{code}]"), ": "), message, "strong", width=width, hang=4)
    arrow, pad = line(("gutter", "   --> ")), "    "
    error = result.error
    where = "" if error is None or error.path in {"", "$"} else f"  {error.path}"
    out += flow(arrow, f"{clean(result.path)}{where}", width=width)
    if error is not None and error.value is not None:
        out += flow(line(("gutter", f"{pad}= "), ("strong", "got"), ": "), error.value, width=width)
    if error is not None and error.hint:
        out += flow(line(("help", "help"), ": "), error.hint, width=width, hang=4)
    out.append(line(("gutter", f"{pad}= "), ("strong", "more"), f": planguard explain {code}"))
    return out


# --- last lines ----------------------------------------------------------------------------------


def _is_plain(verdict: Verdict) -> bool:
    """Tell whether one line says it all: the plan is safe, and nothing else was found."""
    return verdict.safe and not shown_findings(verdict)


def _short_ok(result: Result) -> Line:
    verdict = result.verdict
    assert verdict is not None  # noqa: S101  callers look first
    text = f": {clean(result.path)}  ({sizes(verdict.stats)}; model {verdict.model})"
    return line(("ok", "ok"), text)


def _outcome(result: Result) -> list[Line]:
    verdict = result.verdict
    assert verdict is not None  # noqa: S101  callers look first
    outcome = (ROLE[verdict.outcome], verdict.outcome.value)
    return [line(f"{clean(result.path)}: ", outcome, f"   model {verdict.model}"), ()]


def summary(results: list[Result], options: ReportOptions) -> list[Line]:
    """Return what was checked, how long it took, and how much was found."""
    verdicts = [result.verdict for result in results if result.verdict is not None]
    found = [finding for verdict in verdicts for finding in shown_findings(verdict)]
    text = f"checked {plural(len(results), 'plan')}"
    if len(results) == 1 and verdicts:
        text += f" ({sizes(verdicts[0].stats)})"
    if not options.reproducible:
        text += f" in {sum(result.seconds for result in results):.2f} s"
    refused = len(results) - len(verdicts)
    said = [counts(found)] if found or not refused else []
    if refused:
        said.append(f"{plural(refused, 'plan')} not read")
    return flow(line(), f"{text}: {', '.join(said)}", width=options.style.width)


def refusal(verdict: Verdict, settings: Settings) -> str:
    """Return why the exit code is 1 though a plan is safe: ``not passed: 2 errors (PG301)``."""
    found = failing(verdict, settings) if verdict.safe else []
    if not found:
        return ""
    codes = ", ".join(dict.fromkeys(finding.code for finding in found))
    return f"not passed: {counts(found)} ({codes})"


def acceptance(result: Result, settings: Settings) -> str:
    """Return why the exit code is 0 though a plan is unsafe: ``passed: 1 finding suppressed``."""
    verdict = result.verdict
    if verdict is None or not verdict.unsafe:
        return ""
    number = sum(finding.suppressed is not None for finding in verdict.findings)
    is_passed = passes(verdict, settings, is_complete=result.is_complete)
    return f"passed: {plural(number, 'finding')} suppressed" if number and is_passed else ""


def last_line(results: list[Result], options: ReportOptions) -> Line:
    """Return the verdict line: of one input its own, of several the worst and how many."""
    width, settings = options.style.width, options.settings
    verdicts = [result.verdict for result in results if result.verdict is not None]
    if len(results) == 1 and verdicts:
        one = verdicts[0]
        return verdict_line(one, width, refusal(one, settings), acceptance(results[0], settings))
    if not verdicts:
        codes = ", ".join(dict.fromkeys(result.refusal[0] for result in results))
        return line("verdict: ", ("error", "none"), f"   input refused ({codes})")
    worst = max((verdict.outcome for verdict in verdicts), key=lambda outcome: outcome.severity)
    numbers = {
        "safe": sum(v.safe and not refusal(v, settings) for v in verdicts),
        "unsafe": sum(verdict.unsafe for verdict in verdicts),
        "undecided": sum(verdict.unknown for verdict in verdicts),
        "safe but not passed": sum(bool(refusal(verdict, settings)) for verdict in verdicts),
        "not read": len(results) - len(verdicts),
    }
    said = ", ".join(f"{number:,} {what}" for what, number in numbers.items() if number)
    is_fine = numbers["not read"] == numbers["safe but not passed"] == 0
    role = ROLE[worst] if is_fine or worst is not Outcome.SAFE else "error"
    return line("verdict: ", (role, worst.value), f"   of {len(results):,} plans: {said}")
