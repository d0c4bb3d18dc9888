"""What torch ships for distributed training, really run on gloo, recorded, and decided.

    python tests/campaigns/torch_sweep.py --results sweep.jsonl        # all jobs, one after another
    python tests/campaigns/torch_sweep.py --only 'ddp' --results sweep.jsonl
    python tests/campaigns/torch_sweep.py --sum sweep.jsonl
    python tests/campaigns/torch_sweep.py --jobs sweep.megatron_jobs --results megatron.jsonl
    python tests/campaigns/torch_sweep.py --jobs sweep.deepspeed_jobs --results deepspeed.jsonl

Every job (`torch_jobs.py`, `torch_jobs_mesh.py`, or those of another module) runs on four gloo
processes with the recorder of ``planguard dryrun``. The other executions of what it called are
decided under gloo and NCCL's family; what a job prints and how it ends stands in its row.
docs/planner-sweep.md has the last result.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

MODELS = ("gloo", "nccl", "nccl-lazy", "nccl-serialized", "mpi-sync")
WORLD = 4
TIMEOUT = 120
"""Seconds that a job has, if nothing else is said."""


def be_rank(job: Any, rank: int, folder: Path, timeout: float) -> None:
    """Run one rank in a forked process; never returns."""
    code = 1
    with (folder / f"rank{rank}.txt").open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        try:
            with (folder / f"stack{rank}.txt").open("w") as stack:
                faulthandler.dump_traceback_later(timeout * 0.9, file=stack)
                run_rank(job, rank, folder)
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, it ends the rank
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def run_rank(job: Any, rank: int, folder: Path) -> None:
    """Record one rank of a job."""
    import torch.distributed as dist

    from planguard.capture import start, stop

    warnings.simplefilter("ignore")
    start(folder / "run")
    store = dist.FileStore(str(folder / "store"), WORLD)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD)
    job(rank, WORLD)
    store.add("done", 1)
    while store.add("done", 0) < WORLD:  # stay until all are through, as a rank of a job does
        time.sleep(0.005)
    dist.destroy_process_group()
    stop()


def run_job(job: Any, folder: Path, timeout: float) -> str:
    """Run a job on forked ranks; say how it ended."""
    (folder / "run").mkdir()
    pids = {}
    for rank in range(WORLD):
        pid = os.fork()
        if not pid:
            be_rank(job, rank, folder, timeout)
        pids[pid] = rank
    deadline, failed = time.monotonic() + timeout, []
    while pids and time.monotonic() < deadline:
        for pid in list(pids):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                rank = pids.pop(pid)
                failed += [rank] if status else []
        time.sleep(0.02)
    hung = sorted(pids.values())
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    said = f"ranks {failed} failed" if failed else "ended"
    return said + (f", ranks {hung} hung" if hung else "")


def row_of(name: str, job: Any, version: str, given: argparse.Namespace) -> dict[str, Any]:
    """Run, record and decide one job; keep what it left, if a folder for that is given."""
    import planguard

    with tempfile.TemporaryDirectory(prefix="torch-sweep-") as made:
        folder = Path(made)
        ended = run_job(job, folder, given.timeout)
        row: dict[str, Any] = {"torch": version, "job": name, "ended": ended}
        row["said"] = last_words(folder)
        try:
            plan = planguard.load(folder / "run")
            row["ledger"] = sorted({f"{one.kind} ({one.direction})" for one in plan.approximations})
            row["actions"] = sum(calls_of(plan).values())
            row["calls"] = dict(calls_of(plan))
            verdicts = {model: planguard.check(plan, model=model) for model in MODELS}
            row["outcomes"] = {model: one.outcome.value for model, one in verdicts.items()}
            if any("gradient-order" in one for one in row["ledger"]):  # the order of this run
                kept = planguard.load(folder / "run", order="recorded")
                row["recorded"] = {model: planguard.check(kept, model=model).outcome.value
                                   for model in MODELS}  # fmt: skip
            row["findings"] = sorted({f"{model} {finding.code}: {finding.message}"
                                      for model, one in verdicts.items()
                                      for finding in one.findings})[:12]  # fmt: skip
        except planguard.PlanError as error:
            row["refused"] = str(error)
        if given.keep is not None:
            kept = "".join(letter if letter.isalnum() else "-" for letter in name)
            shutil.rmtree(given.keep / kept, ignore_errors=True)
            shutil.copytree(folder, given.keep / kept)
    return row


def calls_of(plan: Any) -> Counter[str]:
    """What all ranks call, by operation."""
    text = json.loads(plan.source)
    return Counter(action["op"] for one in text["ranks"].values() for action in one["actions"])


def last_words(folder: Path) -> list[str]:
    """The last line that each rank printed, without repetition."""
    found = []
    for path in sorted(folder.glob("rank*.txt")):
        lines = [one for one in path.read_text(errors="replace").splitlines() if one.strip()]
        found += [one[:300] for one in lines[-1:] if one[:300] not in found]
    return found


def main() -> None:
    """Run the jobs, or print what a file holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="jobs with this in their name")
    parser.add_argument("--jobs", default="torch_jobs_mesh", help="module whose JOBS are run")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds of a job")
    parser.add_argument("--keep", type=Path, help="keep recordings, output and stacks there")
    parser.add_argument("--results", type=Path, default=Path("torch-sweep.jsonl"))
    parser.add_argument("--sum", type=Path, help="run nothing; print what a file holds")
    given = parser.parse_args()
    if given.sum is not None:
        return print_rows(given.sum)
    import torch

    module = importlib.import_module(given.jobs)
    version = module.version() if hasattr(module, "version") else torch.__version__
    torch.set_num_threads(1)  # a forked rank must not enter the parent's pool of threads
    known = given.results.read_text().splitlines() if given.results.exists() else []
    done = {(row["torch"], row["job"]) for row in map(json.loads, known)}
    for name, job in module.JOBS.items():
        if given.only in name and (version, name) not in done:
            row = row_of(name, job, version, given)
            with given.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(line_of(row), flush=True)
    return None


def line_of(row: dict[str, Any]) -> str:
    """One job as a line of a table."""
    shown = " ".join(f"{model}={row['outcomes'][model]}" for model in row["outcomes"]) if (
        "outcomes" in row) else f"refused: {row.get('refused', '')[:120]}"  # fmt: skip
    shown += f"; as recorded {' '.join(row['recorded'].values())}" if "recorded" in row else ""
    return f"{row['job']:52} {row.get('actions', 0):5} {row['ended']}: {shown}"


def print_rows(path: Path) -> None:
    """Print the table of a file."""
    for row in map(json.loads, path.read_text().splitlines()):
        print(row["torch"], line_of(row))


if __name__ == "__main__":
    main()
