"""``planguard dryrun --mpi``: an MPI program of its own, recorded and checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from planguard.errors import UsageError
from planguard.files import write
from planguard.words import name_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planguard.capture.mpi.reading import MpiRun

PLAN = "mpi.plan.json"


def run_mpi(command: Sequence[str], folder: Path, *, limit: float, model: str | None) -> int:
    """Run a command with every MPI call of its processes recorded, then decide what they did.

    Args:
        command: The job, such as ``mpirun -n 4 ./a.out``.
        folder: Where the interposer, the logs and the plan go.
        limit: Seconds after which the job is ended; what it did until then is decided.
        model: Execution model instead of ``mpi-eager``.

    Raises:
        UsageError: There is no MPI compiler, or the command cannot be run.
    """
    from planguard.capture.mpi.building import build
    from planguard.capture.mpi.reading import read_mpi
    from planguard.cli import main

    record(command, build(folder), folder / "logs", limit)
    path = folder / PLAN
    run = read_mpi([folder / "logs"])
    write(path, json.dumps(spoiled(run, model)))
    if run.inside:
        print(
            f"{name_ranks(run.inside)} stood in an MPI call when the job ended. What they would "
            "have called next is not recorded: where a finding says that a rank never does "
            "something, it had not done it by then",
            file=sys.stderr,
        )
    return main(["check", str(path), *(["--model", model] if model else [])])


def plan_of(logs: Path, model: str | None = None) -> dict[str, Any]:
    """Return the plan file of what was recorded."""
    from planguard.capture.mpi.reading import read_mpi

    return spoiled(read_mpi([logs]), model)


def spoiled(run: MpiRun, model: str | None = None) -> dict[str, Any]:
    """Return the plan file of a run, with what its being cut off leaves open.

    A finding stands only where every rank that was cut off is stuck in it: another one might have
    gone on, and freed those that wait. A witness is made as short as it can be and need not name
    all that are stuck; the findings do.
    """
    from planguard.api import check

    verdict = check(run.document, model=model)
    witnesses = [verdict.witness, *(one.witness for one in verdict.findings)]
    stuck = {rank for one in witnesses if one for rank, _ in one.blocked}
    # A handle without its partner (PG210) need not block its rank: there its witness says so.
    stuck.update(rank for one in verdict.findings if one.code != "PG210" for rank in one.ranks)
    free = sorted(set(run.cut) - stuck)
    if free:
        said = f"ranks {free} were cut off and may have gone on: a finding may be the cut's"
        entry = {"kind": "cut-short", "message": said, "direction": "over", "scope": "plan"}
        run.document["approximations"].append(entry)
    return run.document


def record(command: Sequence[str], library: Path, logs: Path, limit: float) -> None:
    """Run a job with the interposer in front of its MPI library; end it after ``limit`` seconds.

    Raises:
        UsageError: The command cannot be run.
    """
    environment = {**os.environ, "LD_PRELOAD": str(library.resolve())}
    environment["PLANGUARD_PRELOAD_LOG"] = str(logs.resolve())
    try:
        job = subprocess.Popen(  # noqa: S603 - the job that the user gave
            command, env=environment, start_new_session=True
        )
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be run: {error.strerror}") from error
    try:
        code = job.wait(limit)
        if code:
            print(f"the job ended with code {code}", file=sys.stderr)
    except subprocess.TimeoutExpired:
        print(f"the job was ended after {limit:g} s (--timeout S waits longer)", file=sys.stderr)
    finally:
        # mpirun ends its ranks when it is told so; what does not listen is killed.
        for number in (signal.SIGTERM, signal.SIGKILL):
            if job.poll() is None:
                os.killpg(job.pid, number)
                try:
                    job.wait(10)
                except subprocess.TimeoutExpired:
                    continue
