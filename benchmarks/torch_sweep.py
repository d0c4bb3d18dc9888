"""What torch ships for distributed training, really run on gloo, recorded, and decided.

    python benchmarks/torch_sweep.py --results sweep.jsonl           # all jobs, one after another
    python benchmarks/torch_sweep.py --only 'ddp' --results sweep.jsonl
    python benchmarks/torch_sweep.py --sum sweep.jsonl

Every job (`torch_jobs.py`, `torch_jobs_mesh.py`) runs on four gloo processes with the recorder of
``planguard dryrun``. The other executions of what it called are decided under gloo and NCCL's
family; what a job prints and how it ends stands in its row. docs/planner-sweep.md has the last
result.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

MODELS = ("gloo", "nccl", "nccl-lazy", "nccl-serialized")
WORLD = 4
TIMEOUT = 120


def be_rank(name: str, rank: int, folder: Path) -> None:
    """Run one rank in a forked process; never returns."""
    code = 1
    with (folder / f"rank{rank}.txt").open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        try:
            run_rank(name, rank, folder)
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, it ends the rank
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def run_rank(name: str, rank: int, folder: Path) -> None:
    """Record one rank of a job."""
    import torch.distributed as dist
    from torch_jobs_mesh import JOBS

    from planguard.capture import start, stop

    warnings.simplefilter("ignore")
    start(folder / "run")
    store = dist.FileStore(str(folder / "store"), WORLD)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD)
    JOBS[name](rank, WORLD)
    store.add("done", 1)
    while store.add("done", 0) < WORLD:  # stay until all are through, as a rank of a job does
        time.sleep(0.005)
    dist.destroy_process_group()
    stop()


def run_job(name: str, folder: Path) -> str:
    """Run a job on forked ranks; say how it ended."""
    (folder / "run").mkdir()
    pids = {}
    for rank in range(WORLD):
        pid = os.fork()
        if not pid:
            be_rank(name, rank, folder)
        pids[pid] = rank
    deadline, failed = time.monotonic() + TIMEOUT, []
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


def row_of(name: str, version: str) -> dict[str, Any]:
    """Run, record and decide one job."""
    import planguard

    with tempfile.TemporaryDirectory(prefix="torch-sweep-") as made:
        folder = Path(made)
        row: dict[str, Any] = {"torch": version, "job": name, "ended": run_job(name, folder)}
        row["said"] = last_words(folder)
        try:
            plan = planguard.load(folder / "run")
            row["ledger"] = sorted({f"{one.kind} ({one.direction})" for one in plan.approximations})
            row["actions"] = sum(calls_of(plan).values())
            row["calls"] = dict(calls_of(plan))
            verdicts = {model: planguard.check(plan, model=model) for model in MODELS}
            row["outcomes"] = {model: one.outcome.value for model, one in verdicts.items()}
            row["findings"] = sorted({f"{model} {finding.code}: {finding.message}"
                                      for model, one in verdicts.items()
                                      for finding in one.findings})[:12]  # fmt: skip
        except planguard.PlanError as error:
            row["refused"] = str(error)
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
    parser.add_argument("--results", type=Path, default=Path("torch-sweep.jsonl"))
    parser.add_argument("--sum", type=Path, help="run nothing; print what a file holds")
    given = parser.parse_args()
    if given.sum is not None:
        return print_rows(given.sum)
    import torch
    from torch_jobs_mesh import JOBS

    torch.set_num_threads(1)  # a forked rank must not enter the parent's pool of threads
    known = given.results.read_text().splitlines() if given.results.exists() else []
    done = {(row["torch"], row["job"]) for row in map(json.loads, known)}
    for name in JOBS:
        if given.only in name and (torch.__version__, name) not in done:
            row = row_of(name, torch.__version__)
            with given.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(line_of(row), flush=True)
    return None


def line_of(row: dict[str, Any]) -> str:
    """One job as a line of a table."""
    shown = " ".join(f"{model}={row['outcomes'][model]}" for model in MODELS) if (
        "outcomes" in row) else f"refused: {row.get('refused', '')[:120]}"  # fmt: skip
    return f"{row['job']:52} {row.get('actions', 0):5} {row['ended']}: {shown}"


def print_rows(path: Path) -> None:
    """Print the table of a file."""
    for row in map(json.loads, path.read_text().splitlines()):
        print(row["torch"], line_of(row))


if __name__ == "__main__":
    main()
