"""``planguard check``: decide plans and say why."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from planguard.errors import PlanError

if TYPE_CHECKING:
    import argparse

    from planguard.report import Result

FORMATS = ("text", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0}


class Check:
    """Decide plans under an execution model; exit 0 safe, 1 findings, 2 bad input, 3 undecided."""

    name = "check"
    help = "decide plans: safe, or why not"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("paths", nargs="+", metavar="PATH", help="plan file or planner output")
        parser.add_argument("--planner", metavar="NAME", help="adapter to read PATH with")
        parser.add_argument("--model", metavar="NAME", help="execution model, or all")
        parser.add_argument("--format", choices=FORMATS, default="text")
        parser.add_argument("--budget", type=seconds, metavar="SECONDS", help="such as 2, 200ms, 1m")
        parser.add_argument("--quiet", action="store_true", help="print only the verdict line")
        parser.add_argument("--exit-zero", action="store_true", help="exit 0 instead of 1")
        parser.add_argument(
            "--allow-unknown", action="store_true", help="exit 0 instead of 3, and say how many"
        )
        parser.add_argument(
            "--reproducible", action="store_true", help="leave times out of the results"
        )
        parser.add_argument("--certificate", metavar="FILE", help="write a certificate of SAFE")

    def run(self, args: argparse.Namespace) -> int:
        """Check every path in order and print the results as they are decided."""
        from planguard.report import make_reporter

        _settle_model(args)
        reporter = make_reporter(args.format, sys.stdout, many=len(args.paths) > 1, args=args)
        results = []
        for path in args.paths:
            result = _check_one(path, args)
            results.append(result)
            reporter.add(result)
        reporter.close()
        return exit_code(results, args)


def _settle_model(args: argparse.Namespace) -> None:
    """Refuse an unknown model before anything is read."""
    from planguard.semantics.model import find_model

    if args.model not in {None, "all"}:
        find_model(args.model)


def _check_one(path: str, args: argparse.Namespace) -> Result:
    from planguard import api
    from planguard.options import CheckOptions
    from planguard.report import Result

    started = time.perf_counter()
    try:
        plan = api.load(path, planner=args.planner)
        options = CheckOptions(
            model=args.model, budget=args.budget, certificate=args.certificate is not None
        )
        verdict = api.check(plan, options=options)
    except PlanError as error:
        return Result(path, None, None, error, time.perf_counter() - started)
    return Result(path, plan, verdict, None, time.perf_counter() - started)


def exit_code(results: list[Result], args: argparse.Namespace) -> int:
    """Return the exit code of several results: 2 over 1 over 3 over 0."""
    codes = {_code_of(result, args) for result in results}
    covered = sum(1 for r in results if r.verdict is not None and r.verdict.unknown)
    if args.allow_unknown and covered:
        print(f"--allow-unknown covered {covered} undecided plans", file=sys.stderr)
    return next((code for code in (2, 1, 3) if code in codes), 0)


def _code_of(result: Result, args: argparse.Namespace) -> int:
    if result.verdict is None:
        return 2
    if result.verdict.errors:
        return 0 if args.exit_zero else 1
    if result.verdict.unknown:
        return 0 if args.allow_unknown else 3
    return 0


def seconds(text: str) -> float:
    """Parse a duration: a number of seconds, or with a unit ``ms``, ``s`` or ``m``."""
    for unit, factor in _SECONDS.items():
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdigit():
            return float(number) * factor
    return float(text)
