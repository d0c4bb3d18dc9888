"""One run of ``planguard check``: every plan decided, judged by the settings, and reported."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from planguard.cli.fix import announce, repaired
from planguard.cli.paths import unreadable
from planguard.errors import PlanError, UsageError, shorten
from planguard.files import write
from planguard.options import CheckOptions
from planguard.report import ReportOptions, Result
from planguard.report.baseline import Baseline, read_baseline
from planguard.report.policy import apply_policy, asks_for_rules, passes
from planguard.report.terminal import style_for
from planguard.words import plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from planguard.config import Settings
    from planguard.files import Target, Targets
    from planguard.plan.plan import Plan
    from planguard.report import Reporter

EVERY_FINDING = 1000
"""Findings explained per plan where a baseline must see them all."""
REPORT_EVERY = 10.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class Job:
    """What was asked for, and how results are judged.

    Attributes:
        args: The parsed command line.
        settings: What holds.
        options: How results are written.
        baseline: Findings accepted earlier, or None.
        limit: Findings explained per plan.
        accept: Where the findings are written as a baseline, or None.
        repairs: Changed plans by path, which are written when all plans are checked.
    """

    args: argparse.Namespace
    settings: Settings
    options: ReportOptions
    baseline: Baseline | None
    limit: int
    accept: Target | None = None
    repairs: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, args: argparse.Namespace, settings: Settings, targets: Targets) -> Job:
        """Read the baseline and settle how results are written.

        Raises:
            UsageError: The baseline is not one, or cannot be written.
        """
        accept = args.write_baseline
        accept = None if accept is None else targets.claim(accept, "--write-baseline")
        baseline = None if args.baseline is None else read_baseline(args.baseline)
        options = ReportOptions(
            many=len(args.paths) > 1,
            quiet=args.quiet,
            reproducible=args.reproducible,
            style=style_for(sys.stdout, args.color),
            settings=settings,
            allow_unknown=args.allow_unknown,
        )
        sees_all = baseline is not None or args.write_baseline is not None
        limit = EVERY_FINDING if sees_all else CheckOptions().explain_limit
        return cls(args, settings, options, baseline, limit, accept)

    def run(self, paths: list[str], reporters: Sequence[Reporter]) -> list[Result]:
        """Check every path; each reporter gets every result as it is decided."""
        results: list[Result] = []
        said = time.monotonic()
        for path in paths:
            result = self._check(path)
            results.append(result)
            for reporter in reporters:
                reporter.add(result)
            if len(paths) > 1 and time.monotonic() - said > REPORT_EVERY:
                said = time.monotonic()
                print(f"checked {len(results):,} of {len(paths):,} plans", file=sys.stderr)
        for reporter in reporters:
            reporter.close()
        return results

    def _check(self, path: str) -> Result:
        started = time.perf_counter()
        result = Result(path)
        try:
            result = self._decide(path, self.args.inside.load(path, self.args))
        except PlanError as error:
            result = Result(path, error=error)
        except UsageError as error:  # no adapter takes it
            result = Result(path, error=PlanError(error.message, file=path, hint=error.hint))
        except OSError as error:
            result = Result(path, error=unreadable(error, path))
        except Exception as error:  # noqa: BLE001  told to every reporter, then raised again
            result = Result(path, crash=error)
        return replace(result, seconds=time.perf_counter() - started)

    def _decide(self, path: str, plan: Plan) -> Result:
        from planguard import api

        options = CheckOptions(
            model=self.settings.model,
            budget=self.settings.budget,
            certificate=self.args.certificate is not None,
            explain_limit=self.limit,
            solver_memory_mb=self.settings.solver_memory,
            solver_process=self.settings.solver_process,
        )
        wanted = self.args.rules or asks_for_rules(self.settings)
        rules = self.settings.rules if wanted else False
        if self.args.for_all:
            from planguard.parametric import decide_for_all

            verdict, plan = decide_for_all(plan, self.args.for_all, options)
        else:
            verdict = api.check(plan, options=options, rules=rules)
        if self.args.repair or self.args.fix:
            verdict, text = repaired(plan, verdict, options)
            if text is not None:
                self.repairs[path] = text
        explained = [f for f in verdict.findings if not f.code.startswith("PG6")]
        is_complete = len(explained) < self.limit
        if verdict.plan.file is None or path in self.args.inside.plans:
            verdict = replace(verdict, plan=replace(verdict.plan, file=path))
        verdict = apply_policy(verdict, path, self.settings, plan=plan, baseline=self.baseline)
        return Result(path, plan, verdict, is_complete=is_complete)

    def finish(self, results: list[Result]) -> int:
        """Write the new baseline, say what was allowed, and return the exit code.

        Raises:
            Exception: What went wrong inside PlanGuard while the first such plan was checked.
            OSError: A file cannot be written.
        """
        for result in results:
            if result.crash is not None:
                print(f"while checking {shorten(result.path, 200)}:", file=sys.stderr)
                raise result.crash
        for path, text in self.repairs.items():
            print(announce(self.args, path, text), file=sys.stderr)
        if self.accept is not None:
            self._write_baseline(self.accept, results)
        covered = sum(1 for r in results if r.verdict is not None and r.verdict.unknown)
        if self.args.allow_unknown and covered:
            plans = plural(covered, "undecided plan")
            print(f"--allow-unknown covered {plans}", file=sys.stderr)
        codes = {self._code_of(result) for result in results}
        return next((code for code in (2, 1, 3) if code in codes), 0)

    def _code_of(self, result: Result) -> int:
        verdict = result.verdict
        if verdict is None:
            return 2
        if not passes(verdict, self.settings, is_complete=result.is_complete):
            # What a new baseline has accepted is no failure of this run.
            accepted = self.accept is not None and result.is_complete
            return 0 if self.args.exit_zero or accepted else 1
        if verdict.unknown:
            return 0 if self.args.allow_unknown else 3
        return 0

    def _write_baseline(self, target: Target, results: list[Result]) -> None:
        baseline = Baseline(target.path)
        for result in results:
            for finding in () if result.verdict is None else result.verdict.findings:
                by = None if finding.suppressed is None else finding.suppressed["by"]
                if by != "config" and not finding.code.startswith("PG9"):
                    baseline.add(result.path, finding)
        write(target, baseline.text())
        accepted = sum(baseline.counts.values())
        print(
            f"wrote {baseline.file} ({plural(accepted, 'finding')} accepted); "
            f"use it with: planguard check --baseline {baseline.file}",
            file=sys.stderr,
        )
