"""``planguard audit``: what a recorded run was stuck in."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.cli.outputs import outputs_of, targets_of
from planguard.config import Settings, load_settings
from planguard.errors import PlanError, UsageError
from planguard.files import refuse_special
from planguard.garbage import no_collection
from planguard.options import MODEL_NAMES, seconds
from planguard.report import FORMATS, ReportOptions, Result
from planguard.report.policy import apply_policy, passes
from planguard.report.terminal import COLORS, style_for

if TYPE_CHECKING:
    from planguard.audit.answer import AuditOptions
    from planguard.cli.outputs import Outputs
    from planguard.plan.plan import Plan

_EPILOG = """\
examples:
  planguard audit dumps/                         which rank did not come, and how sure that is
  planguard audit dumps/ --plan run.plan.json    compare with the intended order, too
  planguard audit dumps/ --stacks stacks/        with the stacks of py-spy
  kubectl logs POD | planguard audit -           what a pod printed

reads, and tells apart by their content:
  PyTorch Flight Recorder dumps (pickle, JSON), Kineto traces, ExecutionTrace
  and Chakra files, NCCL_DEBUG logs, runs of dryrun; stacks of py-spy and
  faulthandler; standard error of ranks (watchdog, gloo, DETAIL), launchers,
  stall reports (Horovod, HCCL, XLA), RAS, ClogHook; gzip and zstd.
  One file per rank or one file for all ranks, folders, and mixed kinds.
  A plan among them is the one to compare with; alone, it is for check.
  Pickles cannot run code: a pickle that needs a global is refused.

exit codes:
  0 nothing wrong   1 findings   2 usage, unreadable or refused input   3 undecided
"""


class Audit:
    """The command; see ``planguard audit --help``."""

    name = "audit"
    help = "Say where a recorded run hung, which rank is missing, and how sure that is."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.epilog = _EPILOG
        add = parser.add_argument
        add("paths", nargs="*", metavar="PATH", help="files, folders, or - (standard input)")
        add("--plan", metavar="PLAN", help="the intended plan, to compare with")
        add("--planner", metavar="NAME", help="adapter to read PLAN with")
        add("--prefix", metavar="TEXT", help="what stands in front of the rank in file names")
        add("--stacks", action="append", default=[], metavar="PATH", help="py-spy dumps")
        add("--world-size", type=int, metavar="N", help="ranks of the run, if the dumps do not say")
        add(
            "--model",
            choices=MODEL_NAMES,
            metavar="NAME",
            help="execution model for other executions",
        )
        add("--pg-filters", nargs="+", default=[], metavar="GROUP", help="only these groups")
        add("--allow-incomplete-ranks", action="store_true", help="missing dumps do not exist")
        add("--repo", metavar="DIR", help="the source of the run: shown at call sites, never run")
        add("--watch", metavar="DIR", help="audit the dumps of DIR whenever they change")
        add("--interval", type=_seconds, default=10.0, metavar="SECONDS", help="of --watch")
        add("--rounds", type=int, metavar="N", help="stop --watch after N looks")
        output = parser.add_argument_group("output")
        output.add_argument(
            "--format",
            choices=FORMATS,
            metavar="FORMAT",
            help=f"what to print: {', '.join(FORMATS)}",
        )
        output.add_argument(
            "-o",
            "--output",
            action="append",
            default=[],
            metavar="FORMAT=FILE",
            help="write as well (- prints)",
        )
        output.add_argument("--force", action="store_true", help="overwrite existing files")
        output.add_argument("-q", "--quiet", action="store_true", help="only the verdict line")
        output.add_argument("--color", choices=COLORS, default="auto", help="when to use color")
        output.add_argument("--reproducible", action="store_true", help="leave times out")
        gate = parser.add_argument_group("gate")
        gate.add_argument("--exit-zero", action="store_true", help="exit 0 instead of 1")
        gate.add_argument("--allow-unknown", action="store_true", help="exit 0 instead of 3")

    def run(self, args: argparse.Namespace) -> int:
        """Audit once, or again and again; return the exit code of the last look.

        Raises:
            UsageError: Nothing to read, or an option that cannot be.
            PlanError: The intended plan cannot be read.
        """
        if args.watch is None and not args.paths:
            raise UsageError(
                "nothing to read: no dump, log or stack given",
                hint="give a folder, or the files of the ranks: planguard audit rank_*.txt",
            )
        # Settled before anything is read; a folder is read whole, so nothing in it is written over.
        targets = targets_of(args, [*args.paths, *args.stacks, args.plan, args.watch])
        outputs = outputs_of(args, targets)
        for path in (*args.paths, *args.stacks):
            refuse_special(path)
        if args.watch is not None:
            return _watch(args, outputs)
        with no_collection():  # to its end: what the recordings hold is walked in vain otherwise
            return _report(args, outputs, [_audit(args, [*args.paths, *args.stacks])])


def _seconds(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _options(args: argparse.Namespace, name: str | None) -> AuditOptions:
    from planguard.audit.answer import AuditOptions

    if args.world_size is not None and args.world_size < 1:
        raise UsageError(f"--world-size {args.world_size}: at least 1")
    return AuditOptions(
        plan=None if args.plan is None else _load(args),
        prefix=args.prefix,
        world_size=args.world_size,
        model=args.model,
        groups=tuple(args.pg_filters),
        allow_incomplete=args.allow_incomplete_ranks,
        name=name,
        repo=args.repo,
    )


def _load(args: argparse.Namespace) -> Plan:
    from planguard.api import load

    return load(args.plan, planner=args.planner)


def _audit(args: argparse.Namespace, paths: list[str]) -> Result:
    from planguard.audit.answer import audit_paths

    started = time.perf_counter()
    name = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    options = _options(args, name)
    try:
        verdict = audit_paths(paths, options)
    except PlanError as error:
        return Result(error.file or name, error=error)
    verdict = apply_policy(verdict, name, Settings())
    return Result(name, None, verdict, seconds=time.perf_counter() - started)


def _report(args: argparse.Namespace, chosen: Outputs, results: list[Result]) -> int:
    settings = load_settings({}, start=None)
    style = style_for(sys.stdout, args.color)
    options = ReportOptions(
        quiet=args.quiet,
        reproducible=args.reproducible,
        style=style,
        settings=settings,
        allow_unknown=args.allow_unknown,
    )
    with ExitStack() as stack:
        outputs = [stack.enter_context(output) for output in chosen.open(options)]
        reporters = [chosen.printer(options)]
        reporters += [output.reporter for output in outputs]
        for reporter in reporters:
            for result in results:
                reporter.add(result)
            reporter.close()
    for output in outputs:
        print(output.announcement, file=sys.stderr)
    return max((_code(args, result) for result in results), default=0)


def _code(args: argparse.Namespace, result: Result) -> int:
    if result.verdict is None:
        return 2
    if not passes(result.verdict, Settings()):
        return 0 if args.exit_zero else 1
    if result.verdict.unknown:
        return 0 if args.allow_unknown else 3
    return 0


def _watch(args: argparse.Namespace, outputs: Outputs) -> int:
    from planguard.audit.watch import watch

    if not Path(args.watch).is_dir():
        raise UsageError(f"--watch {args.watch}: no such folder")
    code = 0
    for look in watch(
        args.watch,
        lambda: _audit(args, [args.watch, *args.paths, *args.stacks]),
        interval=args.interval,
        looks=args.rounds,
    ):
        if look.result is None:
            print(look.message, file=sys.stderr)
            continue
        code = _report(args, outputs, [replace(look.result)])
        outputs = outputs.again()  # a later look replaces what an earlier one wrote
        if look.is_final:
            break
    return code
