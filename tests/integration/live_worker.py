"""Runs flat plans under the live guard: live_worker.py FOLDER TIMEOUT PLAN.json...

torch is imported once; the ranks of every plan are forked, a few plans at a time. Prints one JSON
line per plan: its file, the exit code of every rank, and the guard's report if there is one.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import torch
import torch.distributed as dist
from gloo_rank import Rank
from oracle.expand import expand

from planguard import live

LIMIT = 25.0


def be_rank(program, rank: int, folder: Path, timeout: float) -> None:
    """Run one rank; never return."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=len(program.ranks),
        timeout=timedelta(minutes=10),
    )
    runner = Rank(program, rank, lambda *_: None)
    runner.set_up()
    guard = live.guard(timeout, report=folder / "report.txt", exit_code=42)
    code = 0
    try:
        runner.run()
    except SystemExit:
        guard.stop()
        os._exit(0)
    except Exception:  # noqa: BLE001  gloo's errors of programs that mismatch
        traceback.print_exc()
        code = 3
    guard.stop()
    # A rank that is done stays, as a rank of a job that does other things would.
    (folder / f"done-{rank}").touch()
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline and not (folder / "over").exists():
        time.sleep(0.05)
    os._exit(code)


class Job:
    """The ranks of one plan."""

    def __init__(self, plan: str, folder: Path, timeout: float) -> None:
        self.plan, self.folder = plan, folder
        folder.mkdir(parents=True)
        program = expand(json.loads(Path(plan).read_text()))
        self.world = len(program.ranks)
        self.children: dict[int, int] = {}
        self.codes: dict[int, int] = {}
        self.deadline = time.monotonic() + LIMIT
        for rank in range(self.world):
            child = os.fork()
            if child == 0:
                be_rank(program, rank, folder, timeout)
            self.children[child] = rank

    def is_over(self) -> bool:
        """Collect ranks that ended; let the idle ones go when nobody works any more."""
        for child in list(self.children):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                self.codes[self.children.pop(child)] = os.waitstatus_to_exitcode(status)
        done = {int(file.name[5:]) for file in self.folder.glob("done-*")}
        if len(done | set(self.codes)) == self.world or 42 in self.codes.values():
            (self.folder / "over").touch()
        if time.monotonic() > self.deadline:
            for child, rank in self.children.items():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, 9)
                os.waitpid(child, 0)
                self.codes[rank] = -9
            self.children.clear()
        return not self.children

    def result(self) -> str:
        """Return what happened as JSON."""
        report = self.folder / "report.json"
        found = json.loads(report.read_text()) if report.exists() else None
        return json.dumps({"plan": self.plan, "codes": self.codes, "report": found})


def main() -> None:
    """Run the plans, four at a time."""
    folder, timeout, plans = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    running: list[Job] = []
    waiting = list(enumerate(plans))
    while running or waiting:
        while waiting and len(running) < 4:
            number, plan = waiting.pop(0)
            running.append(Job(plan, folder / str(number), timeout))
        for job in [job for job in running if job.is_over()]:
            running.remove(job)
            print(job.result(), flush=True)
        time.sleep(0.02)


main()
