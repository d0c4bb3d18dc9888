"""Measure screening: 10,000 trials of six adapters with planted faults.

    python benchmarks/screen.py                  # local: cache on and off, killed and resumed
    python benchmarks/screen.py --clusters       # Ray and Dask as well
    python benchmarks/screen.py --trials 1000    # a quick look

Every plan carries the name of its trial, so no two inputs are equal bytes. Each line of the output
says whether exactly the planted trials were found, and whether the exported rows are those of the
first run, byte for byte.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import screen_plans

COMMAND = [sys.executable, "-m", "planguard", "screen"]


def screen(folder, tag, *options):
    """Screen the trials in a process of its own; wall and processor seconds, the files written."""
    store, rows, blocked = (folder / f"{tag}.{end}" for end in ("db", "csv", "txt"))
    files = ["--store", store, "--export", rows, "--blocked", blocked, "--quiet", "--force"]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [*COMMAND, folder / "trials.jsonl", *files, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.returncode == 1, done
    return wall, used, rows, blocked


def killed(folder, jobs, rows):
    """Start a screening and kill it, with SIGKILL, once so many rows are in its store."""
    from planguard.errors import UsageError
    from planguard.screen.store import query

    store = folder / "killed.db"
    command = [*COMMAND, folder / "trials.jsonl", "--store", store, "--jobs", str(jobs)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    done = 0
    while process.poll() is None and done < rows:
        time.sleep(0.2)
        try:
            done = query(store, "SELECT count(*) FROM screen")[1][0][0]
        except UsageError:
            continue
    process.send_signal(signal.SIGKILL)
    process.wait()
    return done


def deaths(folder, jobs, count):
    """Screen while workers are killed at random; the exported rows, and how many were killed."""
    import threading

    import planguard
    from planguard.screen.executors import Processes
    from planguard.screen.export import export

    processes, victims, stop = Processes(jobs), set(), threading.Event()
    rng = random.Random(0)

    def kill():
        while not stop.wait(rng.uniform(0.1, 0.4)) and len(victims) < count:
            fresh = [pid for pid in processes.pids if pid not in victims]
            if fresh:
                victims.add(pid := rng.choice(fresh))
                os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    started = time.perf_counter()
    screening = planguard.screen([folder / "trials.jsonl"], executor=processes, cache=False)
    for _ in screening.rows():
        pass
    wall = time.perf_counter() - started
    stop.set()
    thread.join()
    rows = folder / "deaths.csv"
    export(screening.store.rows(), str(rows))
    return wall, rows, len(victims)


def main():
    """Run everything and print a line per run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--clusters", action="store_true", help="Ray and Dask as well")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = time.perf_counter()
        planted = screen_plans.write_lines(folder / "trials.jsonl", args.trials)
        made = time.perf_counter() - started
        print(f"{args.trials:,} trials, {len(planted)} with a planted fault, made in {made:.1f} s")
        jobs = ["--jobs", str(args.jobs)]
        runs = [
            ("cache", jobs),
            ("no cache", [*jobs, "--no-cache"]),
            ("one worker", ["--jobs", "1"]),
        ]
        if args.clusters:
            runs += [("ray", [*jobs, "--executor", "ray"]), ("dask", [*jobs, "--executor", "dask"])]
        first = None
        for tag, options in runs:
            wall, used, rows, blocked = screen(folder, tag, *options)
            first = first or rows.read_bytes()
            found = set(blocked.read_text().split())
            say(tag, wall, f"{used:6.1f} s of processor", found == planted, rows, first)
        done = killed(folder, args.jobs, args.trials // 3)
        wall, used, rows, blocked = resumed(folder, jobs)
        found = set(blocked.read_text().split())
        say("resumed", wall, f"killed at {done:,} rows", found == planted, rows, first)
        wall, rows, victims = deaths(folder, args.jobs, 20)
        say("deaths", wall, f"{victims} workers killed", True, rows, first)


def resumed(folder, jobs):
    """Go on with the killed screening."""
    started = time.perf_counter()
    rows, blocked = folder / "resumed.csv", folder / "resumed.txt"
    files = ["--store", folder / "killed.db", "--export", rows, "--blocked", blocked, "--resume"]
    subprocess.run(
        [*COMMAND, folder / "trials.jsonl", *files, *jobs],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return time.perf_counter() - started, 0.0, rows, blocked


def say(tag, wall, what, is_exact, rows, first):
    """Print the line of a run."""
    found = "planted found exactly" if is_exact else "NOT THE PLANTED ONES"
    same = "same bytes" if rows.read_bytes() == first else "OTHER BYTES"
    print(f"{tag:<12}{wall:7.1f} s  {what:<24} {found}, {same}", flush=True)


if __name__ == "__main__":
    main()
