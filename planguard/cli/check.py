"""``planguard check``: decide plans and say why."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.cli import fix
from planguard.cli.adapters import adapter_options, add_adapter_arguments
from planguard.cli.certificates import certificate_writers
from planguard.cli.job import Job
from planguard.cli.outputs import outputs_of, targets_of
from planguard.cli.paths import Inside, expanded
from planguard.config import Settings, load_settings, mebibytes
from planguard.errors import UsageError
from planguard.options import seconds
from planguard.report import FORMATS
from planguard.report.terminal import COLORS

if TYPE_CHECKING:
    from planguard.files import Targets
    from planguard.report import Reporter

_EPILOG = """\
examples:
  planguard check plan.json                        under the plan's own model, else nccl
  planguard check plan.json --model all            under all nine execution models
  planguard check program.xml --planner msccl --option slots=2
  planguard check plan.json --fix                  write the repaired plan beside it, proved
  planguard check plans/*.plan.json -o sarif=planguard.sarif --baseline .planguard-baseline.json
  planner | planguard check -                      what is piped in

exit codes:
  0 safe   1 findings   2 usage, unreadable or refused input   3 undecided   4 internal error
"""


class Check:
    """Decide plans under an execution model; exit 0 safe, 1 findings, 2 bad input, 3 undecided."""

    name = "check"
    help = "Decide plans: SAFE, a finding with a witness, or UNKNOWN with its reason."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.epilog = _EPILOG
        add = parser.add_argument
        what = "plan, folder, archive, JSONL, planner output, pattern, or -"
        add("paths", nargs="*", metavar="PATH", help=what)
        add_adapter_arguments(parser, "PATH")
        add("--model", metavar="NAME", help="execution model, or all")
        add("--budget", type=_seconds, metavar="SECONDS", help="such as 2, 200ms, 1m")
        add("--rules", action="store_true", help="advise on performance and structure (PG6xx)")
        add("--certificate", metavar="FILE", help="write a certificate of SAFE")
        add("--for-all", action="append", metavar="DIM", help="decide every size of a dimension")
        fix.add_arguments(parser.add_argument_group("repair"))
        _add_solver(parser.add_argument_group("solver"))
        add_output(parser.add_argument_group("output"))
        add_gate(parser.add_argument_group("gate"))

    def run(self, args: argparse.Namespace) -> int:
        """Check every path in order and print the results as they are decided.

        Raises:
            UsageError: A setting, a selector or an output that cannot be.
            Exception: A defect of PlanGuard met while a plan was checked, after all others.
        """
        settings = _settings(args)
        if args.show_settings:
            print(settings.shown(), end="")
            return 0
        if not args.paths:
            raise UsageError("no plan given", hint="planguard check PLAN.json")
        targets = _settle(args)
        chosen = outputs_of(args, targets)
        writers: list[Reporter] = [*certificate_writers(args, targets)]
        job = Job.of(args, settings, targets)
        with ExitStack() as stack:
            outputs = [stack.enter_context(output) for output in chosen.open(job.options)]
            reporters = [chosen.printer(job.options), *(output.reporter for output in outputs)]
            results = job.run(args.paths, [*reporters, *writers])
        for output in outputs:
            print(output.announcement, file=sys.stderr)
        return job.finish(results)


def _add_solver(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--solver-memory", type=_mebibytes, metavar="MIB", help="its memory budget, default 4096")
    add("--solver-process", action="store_true", default=None, help="in a process of its own")


def add_output(group: argparse._ArgumentGroup) -> None:
    """Declare what is printed and written."""
    group.add_argument(
        "--format", choices=FORMATS, metavar="FORMAT", help=f"what to print: {', '.join(FORMATS)}"
    )
    group.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FORMAT=FILE",
        help="write FILE as well (- prints); may be repeated",
    )
    group.add_argument("--force", action="store_true", help="overwrite existing files")
    group.add_argument("-q", "--quiet", action="store_true", help="print only the verdict line")
    group.add_argument("--color", choices=COLORS, default="auto", help="when to use color")
    group.add_argument("--reproducible", action="store_true", help="leave times out of the results")


def add_gate(group: argparse._ArgumentGroup) -> None:
    """Declare what fails the gate."""
    add = group.add_argument
    add("--select", action="append", metavar="CODES", help="count only these: PG001,PG2")
    add("--ignore", action="append", metavar="CODES", help="do not count these")
    add("--fail-on", metavar="SEVERITY", help="error (default), warning or note")
    add("--exit-zero", action="store_true", help="exit 0 instead of 1")
    add("--allow-unknown", action="store_true", help="exit 0 instead of 3, and say how many")
    add("--baseline", metavar="FILE", type=Path, help="findings accepted earlier")
    add("--write-baseline", metavar="FILE", type=Path, help="accept what is found now")
    add("--config", metavar="FILE", type=Path, help="settings; else planguard.toml, pyproject.toml")
    add("--no-config", action="store_true", help="read no settings file")
    add("--show-settings", action="store_true", help="print what holds and who said so")


def _seconds(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _mebibytes(text: str) -> int:
    try:
        return mebibytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _settings(args: argparse.Namespace) -> Settings:
    """Return what holds: command line, then file, then defaults."""
    given = {
        "model": args.model,
        "select": args.select,
        "ignore": args.ignore,
        "fail-on": args.fail_on,
        "budget": args.budget,
        "solver-memory": args.solver_memory,
        "solver-process": args.solver_process,
    }
    start = None if args.no_config else Path.cwd()
    return load_settings(given, file=args.config, start=start)


def _settle(args: argparse.Namespace) -> Targets:
    """Refuse what cannot be before anything is read; return what guards the outputs."""
    from planguard import registry

    if args.planner is not None:
        registry.find(args.planner)
    adapter_options(args)
    args.inside = Inside()
    args.paths = expanded(args.paths, args.planner, args.inside)
    inputs = [*args.paths, *args.inside.files, args.config, args.baseline]
    targets = targets_of(args, inputs)
    fix.settle(args, targets)
    return targets
