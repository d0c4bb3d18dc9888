"""``planguard dryrun``: what a job really communicates, recorded and checked."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.cli import EXIT_INPUT, EXIT_INTERRUPTED
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.capture.run.job import JobEnd

_EPILOG = """\
examples:
  planguard dryrun -o run -- torchrun --nproc-per-node 2 train.py     record, then check
  planguard dryrun -o run --plan plan.json -- torchrun ... train.py   compare with the plan, too
  planguard dryrun --stub -o run -- torchrun --nproc-per-node 64 train.py   play the ranks here
  planguard dryrun --mpi -o run -- mpirun -n 4 ./a.out                an MPI program
  planguard dryrun -o run --plan plan.json                            compare a run made before
  planguard check run                                                 check a recorded run again

exit codes:
  0 safe   1 findings   2 usage, unreadable or refused input   3 undecided   130 interrupted
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
        add("--stub", action="store_true", help="play the ranks here; nothing is communicated")
        add("--mpi", action="store_true", help="the job is an MPI program in C, C++ or Python")
        add("--mesh", metavar="DIMS", help="with --stub: which ranks are alike, such as dp=2,tp=4")
        add(
            "--samples",
            type=int,
            metavar="K",
            help="with --stub: play one rank of each class, K more",
        )
        add(
            "--timeout",
            type=float,
            default=300.0,
            metavar="S",
            help="with --stub: seconds per rank; with --mpi: of the job",
        )
        add(
            "--stall",
            type=_seconds,
            metavar="S",
            help="end a job whose ranks wait, and none of which communicates for S seconds (300; "
            "0: never)",
        )
        add(
            "--compute",
            choices=("auto", "fake", "zeros"),
            default="zeros",
            help="with --stub: tensors with storage (zeros), without (fake), or fake where it does",
        )
        add("--plan", metavar="PLAN", help="compare what was recorded with this plan")
        add("--planner", metavar="NAME", help="adapter to read PLAN with")
        add("--model", metavar="NAME", help="execution model, or all")
        add("--witness", action="store_true", help="let torch's dispatcher record, too")
        add("--values", action="store_true", help="record a few elements of what calls move, too")
        add("--frames", type=int, default=16, metavar="N", help="frames of a call stack, 0 none")
        add("job", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the job")

    def run(self, args: argparse.Namespace) -> int:
        """Run the job, then check what it did.

        Raises:
            UsageError: There is no command, or it recorded nothing.
            PlanError: The plan or a log cannot be read.
        """
        command = args.job[1:] if args.job[:1] == ["--"] else args.job
        if args.stub and (args.record or args.plan or args.witness or args.values):
            raise UsageError("--stub goes with none of --record, --plan, --witness and --values")
        if args.stub and args.stall is not None:
            raise UsageError("--stall goes with --record; --timeout limits the ranks of --stub")
        if not args.stub and (args.mesh or args.samples is not None):
            raise UsageError("--mesh and --samples go with --stub")
        folder = Path(args.output)
        if not command:
            if not any(folder.glob("*.pgrun")):
                raise UsageError("no job given", hint="planguard dryrun -- torchrun ... train.py")
            return _check(folder, args)
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", hint="choose a new folder with -o")
        if args.mpi:
            from planguard.cli.mpi import run_mpi

            if args.stub or args.plan or args.witness or args.values or args.stall is not None:
                hint = "with --mpi go -o, --timeout and --model"
                raise UsageError("--mpi does not go with that option", hint=hint)
            return run_mpi(command, folder, limit=args.timeout, model=args.model)
        if args.stub:
            from planguard.cli.stub import run_stub

            return run_stub(command, folder, args)
        from planguard.capture.run.log import mark_cut

        end = _run_job(command, folder, args)
        if end.signal or end.stalled is not None:
            mark_cut(folder)
        _say_how_it_ended(end)
        if end.signal and not any(folder.glob("*.pgrun")):
            print(f"no rank had written anything into {folder}: nothing to judge", file=sys.stderr)
            return EXIT_INTERRUPTED
        code = _check(folder, args, end)
        return EXIT_INTERRUPTED if end.signal else code


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def _run_job(command: Sequence[str], folder: Path, args: argparse.Namespace) -> JobEnd:
    """Run the job with the recorder in every rank, and return how it ended."""
    from planguard.capture.run.environment import environment_of
    from planguard.capture.run.job import STALL, run_job

    environment = environment_of(
        folder, frames=args.frames, witness=args.witness, values=args.values
    )
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    stall = STALL if args.stall is None else args.stall
    try:
        return run_job(command, environment, folder, stall=stall)
    except UsageError:
        if is_new:
            folder.rmdir()  # nothing ran, so nothing is in it
        raise


def _say_how_it_ended(end: JobEnd) -> None:
    """Say on stderr what the logs cannot: why the job came to its end."""
    left = f" (processes killed: {end.ended})" if end.ended else ""
    if end.stalled is not None:
        print(
            f"the job was ended: ranks wait, and none of them communicated for {end.stalled:g} s"
            f"{left}\n(--stall S waits longer, --stall 0 for ever)",
            file=sys.stderr,
        )
    elif end.signal:
        print(f"interrupted: the job was told so and has ended{left}", file=sys.stderr)
    elif end.code:
        print(f"the job ended with code {end.code}", file=sys.stderr)


def _check(folder: Path, args: argparse.Namespace, end: JobEnd | None = None) -> int:
    """Decide what was recorded, with the command that decides any plan; then compare.

    What did not come to its end decides nothing by itself: then where the ranks stood is said, too.
    """
    from planguard.capture.run.reading import read_run, run_logs
    from planguard.cli import main

    if not run_logs(folder):
        if end is not None and end.code:
            raise UsageError(
                f"no rank wrote a log into {folder}: the job ended with code {end.code}",
                hint="its own error stands above; make it run without planguard first",
            )
        how = ""
        if end is not None:
            how = ": the job ended with code 0, and no process of it called init_process_group"
        raise UsageError(
            f"no rank wrote a log into {folder}{how}",
            hint="a script that exits early prints why; else the job must run Python without -S, "
            "-I or -E (planguard.capture.start() in the script does without the environment)",
        )
    options = ["--model", args.model] if args.model else []
    codes = [main(["check", str(folder), *options])]
    if codes[0] == EXIT_INTERRUPTED:
        said = f"what was recorded is whole: planguard check {shlex.quote(str(folder))} decides it"
        print(said, file=sys.stderr)
        return EXIT_INTERRUPTED
    if end is not None and codes[0] != EXIT_INPUT and _has_stopped_short(folder):
        print(f"\nwhere the ranks stood: planguard audit {shlex.quote(str(folder))}", flush=True)
        codes.append(main(["audit", str(folder)]))
    if args.witness:
        from planguard.capture.run.dispatch import agreement

        found = [agreement(one.log) for one in read_run(folder)]
        calls = sum(one.both for one in found)
        print(f"witnesses: {calls} calls seen by both", end="")
        odd = [one for one in found if not one.is_full]
        print(_beyond(folder) if not odd else f"; ranks {[o.rank for o in odd]} differ")
        codes.append(3 if odd else 0)
    if args.plan is not None:
        codes.append(_compare(folder, args))
    return next((code for code in (EXIT_INTERRUPTED, 2, 1, 3) if code in codes), max(codes))


def _beyond(folder: Path) -> str:
    """Say whether the calls that both witnesses saw were all: what neither can see is noted."""
    from planguard.capture.run.reading import read_run
    from planguard.execution.findings.undecided import UNSEEN

    unseen = {note for one in read_run(folder) for note in one.notes if note[0] == UNSEEN}
    if not unseen:
        return ", and no other"
    return "; beside them the ranks communicate by what neither sees (see the approximations)"


def _has_stopped_short(folder: Path) -> bool:
    """Tell whether a rank has no log, or one that does not come to its end.

    Where nobody made a process group there are no calls to audit.
    """
    from planguard.capture.run.gaps import gaps_of
    from planguard.capture.run.reading import read_run

    ranks = read_run(folder)
    return ranks[0].log.has_group and bool(gaps_of(ranks))


def _compare(folder: Path, args: argparse.Namespace) -> int:
    """Print how the run relates to the plan; 0 equal, 1 different, 3 as far as it was recorded."""
    from planguard.api import load
    from planguard.audit.intended import differences
    from planguard.capture.run.reading import recording_of_run
    from planguard.recording.compare import compare

    plan, recording = load(args.plan, planner=args.planner), recording_of_run(folder)
    if plan.world_size != recording.world_size:
        hint = "compare a run with the plan of as many ranks"
        reason = f"the plan has {plan.world_size} ranks, the run had {recording.world_size}"
        raise UsageError(reason, hint=hint)
    found = compare(recording, plan)
    for finding in differences(recording, plan):
        print(f"error[{finding.code}]: {finding.message}")
        for note in finding.notes:
            print(f"    {note}")
    statuses = [status.value for one in found.ranks for status in one.groups.values()]
    said = ", ".join(f"{statuses.count(s)} {s}" for s in dict.fromkeys(statuses))
    left = sum(one.prologue for one in found.ranks)
    print(f"conformance: {said} (rank and group); {left} calls of a framework's start left out")
    for gap in recording.gaps:
        print(f"    limited: {gap.message}")
    if not found.is_equal:
        return 1
    return 3 if found.is_limited else 0
