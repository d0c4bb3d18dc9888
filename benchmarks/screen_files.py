"""Measure screening from planner files, cold: the adapters' time apart from the rest.

    python benchmarks/screen_files.py                     # 2,000 trial folders, two workers
    python benchmarks/screen_files.py --profile           # where the time of one process goes

A trial is a folder with ``schedule.csv`` (GPipe or 1F1B of 2 to 4 stages and 2 to 10 microbatches,
as torch dumps it) and ``params.json``. Spaces in the cells make every file's bytes its own, so that
no file is read once for two. One in twenty has a planted fault: a stage that waits for its gradient
before it sends. Processor time is what counts on a busy machine; it is that of all processes.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHARE = 0.05
"""Of the trials that have a planted fault."""


def order(stage, stages, microbatches, kind):
    """The computations of a stage: all forward and all backward, or one of each in turn."""
    ahead = microbatches if kind == "gpipe" else min(stages - stage, microbatches)
    done = [f"F{m}" for m in range(ahead)]
    for m in range(microbatches):
        done.append(f"B{m}")
        if ahead + m < microbatches:
            done.append(f"F{ahead + m}")
    return done


def rows(stages, microbatches, kind, *, fault):
    """The cells of every stage; a fault exchanges the first message out and in of stage 0.

    As torch's own pass does, a receive is placed when its message is sent, so all is in one order.
    """
    left = [order(stage, stages, microbatches, kind) for stage in range(stages)]
    cells = [[] for _ in left]
    while any(left):
        for stage, steps in enumerate(left):
            if not steps:
                continue
            way, number = steps[0][0], steps[0][1:]
            ahead = 1 if way == "F" else -1
            if 0 <= stage - ahead < stages and f"{stage}RECV_{way}{number}" not in cells[stage]:
                continue
            cells[stage].append(f"{stage}{steps.pop(0)}")
            if 0 <= stage + ahead < stages:
                cells[stage].append(f"{stage}SEND_{way}{number}")
                cells[stage + ahead].append(f"{stage + ahead}RECV_{way}{number}")
    if fault:
        send, recv = cells[0].index("0SEND_F0"), cells[0].index("0RECV_B0")
        cells[0][send], cells[0][recv] = cells[0][recv], cells[0][send]
    return cells


def write(folder, trials, seed=0):
    """Write trial folders; return the names of those with a fault."""
    planted = set()
    for number in range(trials):
        rng = random.Random(f"{seed}/{number}")
        fault = rng.random() < SHARE
        stages, microbatches = rng.randint(2, 4), rng.randint(2, 10)
        kind = rng.choice(("gpipe", "1f1b"))
        cells = rows(stages, microbatches, kind, fault=fault)
        # Up to seven spaces behind a cell: bytes of its own. The smallest schedule has 12 cells.
        for place, digit in enumerate(f"{number:o}"):
            line = cells[place % stages]
            line[place // stages] += " " * int(digit)
        here = folder / f"{number // 1000:04}" / f"t{number:07}"
        here.mkdir(parents=True)
        (here / "schedule.csv").write_text("\n".join(map(",".join, cells)) + "\n")
        params = {"stages": stages, "microbatches": microbatches, "kind": kind}
        params.update(early=fault, lr=rng.choice((1e-4, 3e-4, 1e-3)), seed=number)
        (here / "params.json").write_text(json.dumps(params))
        if fault:
            planted.add(str(here / "schedule.csv"))
    return planted


def processor():
    """Processor seconds of the processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def screen(folder, jobs):
    """Screen in a process of its own; wall and processor seconds, the names found blocked."""
    store, blocked = folder / "screen.db", folder / "blocked.txt"
    command = [sys.executable, "-m", "planguard", "screen", folder / "trials", "--force"]
    command += ["--store", store, "--blocked", blocked, "--jobs", str(jobs), "--quiet"]
    before, started = processor(), time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    wall = time.perf_counter() - started
    assert done.returncode == 1, done
    return wall, processor() - before, set(blocked.read_text().split())


def apart(paths):
    """Milliseconds of processor a trial of recognizing, of the adapter, of the skeleton."""
    from planguard.loading import load, recognized
    from planguard.options import CheckOptions
    from planguard.screen.checking import skeleton_of

    options = CheckOptions()
    load(paths[0])
    steps = {}
    plans = []
    for name, work in {
        "recognized": recognized,
        "read by the adapter": lambda path: plans.append(load(path, planner="pipelining")),
        "skeleton": lambda _: skeleton_of(plans.pop(), options),
    }.items():
        began = time.process_time()
        for path in paths:
            work(path)
        steps[name] = (time.process_time() - began) / len(paths) * 1000
    return steps


def main():
    """Write the trials, screen them, and print where the time went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--profile", action="store_true", help="profile one process instead")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        planted = write(folder / "trials", args.trials)
        some = sorted(map(str, (folder / "trials").rglob("schedule.csv")))[:200]
        if args.profile:
            profile(some)
            return
        print(f"{args.trials:,} trial folders, {len(planted)} with a planted fault", flush=True)
        for what, spent in apart(some).items():
            print(f"  {what:<22}{spent:6.2f} ms a trial")
        wall, used, found = screen(folder, args.jobs)
        exactly = "planted found exactly" if found == planted else "NOT THE PLANTED ONES"
        print(f"  all of it             {used / args.trials * 1000:6.2f} ms a trial, {exactly}")
        print(
            f"{wall:.1f} s wall ({args.trials / wall:.0f}/s), {used:.1f} s of processor "
            f"({args.jobs * args.trials / used:.0f}/s on {args.jobs} cores of their own), "
            f"store {(folder / 'screen.db').stat().st_size / 1e6:.1f} MB"
        )


def profile(paths):
    """Profile what a worker does with each path."""
    from planguard.loading import load
    from planguard.options import CheckOptions
    from planguard.screen.checking import skeleton_of

    load(paths[0])
    with cProfile.Profile() as profiler:
        for path in paths:
            skeleton_of(load(path), CheckOptions())
    pstats.Stats(profiler).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    main()
