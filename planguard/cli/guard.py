"""``planguard guard``: a job as it is, with a guard in every rank."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from planguard.cli import EXIT_FINDINGS, EXIT_INTERRUPTED
from planguard.errors import UsageError

_EPILOG = """\
examples:
  planguard guard -- torchrun --nproc-per-node 8 train.py
  planguard guard --timeout 2m --report stuck.txt -- torchrun ... train.py
  planguard guard --exit-code 0 -- torchrun ... train.py   only report
  PLANGUARD_GUARD_TIMEOUT=5m planguard guard -- srun python train.py

options:
  the command line first, then the environment (PLANGUARD_GUARD_TIMEOUT,
  _WARN_AFTER, _REPORT, _EXIT_CODE, _NATIVE), then the table "guard" of
  planguard.toml or [tool.planguard.guard] of pyproject.toml

exit codes:
  1 ranks can never move again   2 usage   130 interrupted
  any other: that of the job
"""


class GuardJob:
    """The command; see ``planguard guard --help``."""

    name = "guard"
    help = "Run a job, and say which ranks can never move again, where, and for whom they wait."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.epilog = _EPILOG
        add = parser.add_argument
        add("--timeout", metavar="T", help="time in one call, then a rank is suspected (60s)")
        add(
            "--warn-after",
            metavar="T",
            help="mean time of all ranks in their last call, then a warning (five times --timeout)",
        )
        add("--report", metavar="FILE", help="write the report there, and FILE as .json beside it")
        add("--exit-code", metavar="N", help="end stuck ranks with this code; 0 leaves them (42)")
        add(
            "--native",
            action=argparse.BooleanOptionalAction,
            default=None,
            help="native stacks, too (the default)",
        )
        add("job", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the job")

    def run(self, args: argparse.Namespace) -> int:
        """Run the job under guard.

        Raises:
            UsageError: There is no command, it cannot be run, or an option means nothing.
        """
        from planguard.capture.run.environment import injected
        from planguard.capture.run.job import run_job
        from planguard.config import load_settings
        from planguard.guarding import GuardOptions, from_environment, read_options

        command = args.job[1:] if args.job[:1] == ["--"] else args.job
        if not command:
            raise UsageError("no job given", hint="planguard guard -- torchrun ... train.py")
        names = ("timeout", "warn_after", "report", "exit_code", "native")
        given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
        try:
            told = read_options(given)
        except ValueError as error:
            name, _, what = str(error).partition(": ")
            raise UsageError(f"--{name.replace('_', '-')}: {what}") from None
        settings = load_settings(start=Path.cwd())
        values = {**settings.guard, **from_environment(os.environ), **told}
        options = GuardOptions(**values)
        with tempfile.TemporaryDirectory(prefix="planguard-") as folder:
            report = Path(options.report or Path(folder) / "stuck.txt").resolve()
            if options.report:
                _refuse_old(report)
            options = replace(options, report=str(report))
            end = run_job(command, {**injected(), **options.to_environment()})
            is_stuck = report.exists()
        if end.signal:
            left = f" (processes killed: {end.ended})" if end.ended else ""
            print(f"interrupted: the job was told so and has ended{left}", file=sys.stderr)
            return EXIT_INTERRUPTED
        if is_stuck:
            where = f"; the report is in {options.report}" if values.get("report") else ""
            print(f"planguard guard: ranks were stuck{where}", file=sys.stderr)
            return EXIT_FINDINGS
        return end.code if end.code >= 0 else 128 - end.code


def _refuse_old(report: Path) -> None:
    """Refuse a report that lies there: it would be taken for this job's."""
    for file in (report, report.with_suffix(".json")):
        if file.exists():
            raise UsageError(f"{file} exists", hint="choose another --report, or remove it")
    if not report.parent.is_dir():
        raise UsageError(f"{report.parent} is no folder", hint="make it first")
