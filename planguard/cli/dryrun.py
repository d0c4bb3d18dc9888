"""``planguard dryrun``: what a job really communicates, recorded and checked."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_EPILOG = """\
examples:
  planguard dryrun -o run -- torchrun --nproc-per-node 2 train.py     record, then check
  planguard dryrun -o run --plan plan.json -- torchrun ... train.py   compare with the plan, too
  planguard check run                                                 check a recorded run again

exit codes:
  0 safe   1 findings   2 usage, unreadable or refused input   3 undecided
"""


class DryRun:
    """The command; see ``planguard dryrun --help``."""

    name = "dryrun"
    help = "Run a job with every communication recorded, and decide its other executions."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.epilog = _EPILOG
        add = parser.add_argument
        add("-o", "--output", default="planguard-run", metavar="DIR", help="where the logs go")
        add("--record", action="store_true", help="run on real processes (the default)")
        add("--plan", metavar="PLAN", help="compare what was recorded with this plan")
        add("--planner", metavar="NAME", help="adapter to read PLAN with")
        add("--model", metavar="NAME", help="execution model, or all")
        add("--witness", action="store_true", help="let torch's dispatcher record, too")
        add("--frames", type=int, default=16, metavar="N", help="frames of a call stack, 0 none")
        add("job", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the job")

    def run(self, args: argparse.Namespace) -> int:
        """Run the job, then check what it did.

        Raises:
            UsageError: There is no command, or it recorded nothing.
            PlanError: The plan or a log cannot be read.
        """
        command = args.job[1:] if args.job[:1] == ["--"] else args.job
        if not command:
            raise UsageError("no job given", hint="planguard dryrun -- torchrun ... train.py")
        folder = Path(args.output)
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", hint="choose a new folder with -o")
        code = _run_job(command, folder, args)
        if code:
            print(f"the job ended with code {code}", file=sys.stderr)
        return _check(folder, args)


def _run_job(command: Sequence[str], folder: Path, args: argparse.Namespace) -> int:
    """Run the job with the recorder in every rank and return its exit code."""
    from planguard.capture import run_start as recorder

    inject = Path(recorder.__file__).with_name("inject")
    package = Path(recorder.__file__).resolve().parents[2]
    paths = [str(inject), os.environ.get("PYTHONPATH", ""), str(package)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        recorder.FOLDER: str(folder.resolve()),
        recorder.FRAMES_KEPT: str(args.frames),
    }
    if args.witness:
        environment[recorder.WITNESS] = "1"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        # The command is the user's own job.
        return subprocess.run(list(command), env=environment, check=False).returncode  # noqa: S603
    except OSError as error:
        reason = f"{command[0]} cannot be run: {error.strerror}"
        raise UsageError(reason, hint="is it installed?") from None


def _check(folder: Path, args: argparse.Namespace) -> int:
    """Decide what was recorded, with the command that decides any plan."""
    from planguard.capture.run_reading import run_logs
    from planguard.cli import main

    if not run_logs(folder):
        raise UsageError(
            f"no rank wrote a log into {folder}",
            hint="the job must run Python without -S or -I and call init_process_group; "
            "planguard.capture.start() in the script does without the environment",
        )
    options = ["--model", args.model] if args.model else []
    return main(["check", str(folder), *options])
