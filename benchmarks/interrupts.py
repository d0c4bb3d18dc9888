"""Dry runs that are interrupted, ended or left hanging at random points: what stays, what is said.

    python benchmarks/interrupts.py --points 50 --seed 1
    python benchmarks/interrupts.py --points 50 --commands dryrun --asleep --latest 3
                                                                     signals alone, at the start
    python benchmarks/interrupts.py --ways hang --patience 900       hangs alone, on a busy machine

The points take turns among ``dryrun``, ``dryrun --stub`` and ``precheck``, and among SIGINT,
SIGTERM, and a rank that stops at a random call while the others wait. Half of the signals of a
recorded job come while it starts, half once a rank has written. Counted are processes that live ten
seconds after the command was told to end, or ended by itself, and commands that say no verdict of
what was recorded. A job that had written nothing yet has nothing to be judged: there the command
must say so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

JOB = """\
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta
from torch.nn.parallel import DistributedDataParallel
stop = int(sys.argv[1])
dist.init_process_group("gloo", timeout=timedelta(seconds=600))
rank = dist.get_rank()
open("begun", "w").close()
model = DistributedDataParallel(torch.nn.Linear(4, 4))
for step in range(stop + 30 if stop >= 0 else 10**6):  # a play goes on behind what disagrees
    if rank == 1 and step == stop:
        dist.barrier() if stop % 2 else time.sleep(3600)
    model(torch.ones(2, 4)).sum().backward()
    time.sleep(0.02)
"""
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
COMMANDS = ("dryrun", "stub", "precheck")
WAYS = ("SIGINT", "SIGTERM", "hang")
SECONDS = 10.0
"""What processes have to be gone in, behind the end of the command."""


def alive(mark: str) -> list[int]:
    """Return the processes that have a mark in their environment, but for those that have ended."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() not in (place / "environ").read_bytes().split(b"\0"):
                continue
            if place.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(int(place.name))
        except OSError:
            continue
    return found


def command_of(which: str, way: str, stop: int, *, asleep: bool) -> list[str]:
    """Return a command over the job. A hang of a play is over when the time of a rank is."""
    step = str(stop if way == "hang" else -1)
    job = [*TORCHRUN, "job.py", step]
    limit = ["--timeout", "8" if way == "hang" else "300"]
    if asleep:
        job = [sys.executable, "-c", "import time; time.sleep(60)"]
    rest = {
        "dryrun": ["dryrun", "--stall", "4" if way == "hang" else "0", "-o", "run", "--", *job],
        "stub": ["dryrun", "--stub", *limit, "-o", "run", "--", "torchrun", "--nproc-per-node", "2",
                 "job.py", step],
        "precheck": ["precheck", "job.py", "--ranks", "2", *limit, "--", step],
    }  # fmt: skip
    return [sys.executable, "-m", "planguard", *rest[which]]


def point(
    number: int, which: str, way: str, wait: float, stop: int, *, asleep: bool, patience: float
) -> dict[str, object]:
    """Run one job to its point; return what was seen. One that is asleep never writes anything."""
    with tempfile.TemporaryDirectory() as folder:
        mark = f"INTERRUPTS={os.getpid()}-{number}"
        (Path(folder) / "job.py").write_text(JOB)
        command = command_of(which, way, stop, asleep=asleep)
        environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
            "PYTHONFAULTHANDLER": "1", "INTERRUPTS": mark.partition("=")[2],
        }  # fmt: skip
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=said, stderr=subprocess.STDOUT,
                preexec_fn=default_signals,  # noqa: PLW1509 - one thread
            )  # fmt: skip
            if way != "hang":
                until = time.monotonic() + 90
                # Half of the points of recorded jobs are in the run.
                late = which == "dryrun" and number % 2 and not asleep
                while late and time.monotonic() < until:
                    if any(Path(folder).glob("run/*.pgrun")):
                        break
                    time.sleep(0.05)
                time.sleep(wait / 6 if late else wait)
                logs = len(list(Path(folder).glob("run/*.pgrun")))
                has_begun = Path(folder, "begun").exists()
                process.send_signal(signal.SIGINT if way == "SIGINT" else signal.SIGTERM)
            begin = time.monotonic()
            try:
                process.wait(timeout=patience)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)  # it tells where it stands, and ends
                try:
                    process.wait(timeout=SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
            took = time.monotonic() - begin
            if way == "hang":
                has_begun = True
                logs = len(list(Path(folder).glob("run/*.pgrun")))
            until = time.monotonic() + SECONDS
            while alive(mark) and time.monotonic() < until:
                time.sleep(0.1)
            left = alive(mark)
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            said.seek(0)
            text = said.read()
    last = [line for line in text.splitlines() if line.startswith("verdict: ")]
    told = last[-1].split()[1] if last else ""
    if "no rank had written anything" in text and not logs:
        told = "nothing written"
    if not told and not has_begun and text.rstrip().endswith("interrupted"):
        told = "interrupted"  # before any rank had begun
    return {"command": which, "way": way, "at": round(wait, 2) if way != "hang" else stop,
            "logs": logs, "code": process.returncode, "s": round(took, 1), "left": len(left),
            "said": told, "tail": text[-4000:] if not told else ""}  # fmt: skip


def default_signals() -> None:
    """Let a signal that this process ignores end the command all the same."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=120.0, help="seconds that a command has")
    parser.add_argument("--asleep", action="store_true", help="jobs that sleep; signals alone")
    parser.add_argument("--latest", type=float, default=25.0, help="seconds of the last point")
    args = parser.parse_args()
    chosen = random.Random(args.seed)
    rows = []
    for number in range(args.points):
        which = args.commands[number % len(args.commands)]
        way = args.ways[number // len(args.commands) % len(args.ways)]
        way = "SIGTERM" if args.asleep and way == "hang" else way
        wait = chosen.uniform(0, args.latest)
        more = {"asleep": args.asleep, "patience": args.patience}
        row = point(number, which, way, wait, chosen.randrange(60), **more)
        rows.append(row)
        print(json.dumps(row), flush=True)
    bad = [row for row in rows if row["left"] or not row["said"] or row["said"] == "SAFE"]
    print(json.dumps({
        "points": len(rows), "processes left": sum(int(row["left"]) for row in rows),
        "nothing said": sum(not row["said"] for row in rows),
        "said": dict(Counter(f"{row['command']}, {row['way']}: {row['said']}" for row in rows)),
        "longest, s": max(float(row["s"]) for row in rows),
    }))  # fmt: skip
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
