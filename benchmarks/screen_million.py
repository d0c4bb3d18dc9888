"""Screen many trials at several sizes: does time grow with them, and memory not?

    python benchmarks/screen_million.py                          # plans: 10,000, 30,000, 100,000
    python benchmarks/screen_million.py 2000 6000 20000 --files  # planner files
    python benchmarks/screen_million.py 1000000                  # the whole of it

Of every size: processor time of all processes, the largest memory of each, the size of the store;
then the same with ``--resume``, where nothing is left to do, and the export of all rows.

From plans: lines of a JSONL file, one of 240 plans each (a pipeline of 2 to 9 stages with 2 to 16
microbatches), with parameters of its own; ``--unique`` gives every line bytes of its own, too. From
files: folders as ``screen_files.py`` writes them. A fault is planted where ``early`` is true and
``overlap`` is 2, and in a second place where ``order`` is "torn"; the summary has to name both.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import screen_files

STAGES, MICROBATCHES = range(2, 10), range(2, 17, 2)


def plan(stages, microbatches, fault):
    """A pipeline; a fault lets stage 0 receive before it sends ("early"), or skip its last send."""
    ranks = {}
    for stage in range(stages):
        actions = []
        for mb in range(microbatches):
            before = {"op": "recv", "peer": stage - 1, "bytes": 64, "label": f"F{mb}"}
            after = {"op": "send", "peer": stage + 1, "bytes": 64, "label": f"F{mb}"}
            back = {"op": "recv", "peer": stage + 1, "bytes": 64, "label": f"B{mb}"}
            up = {"op": "send", "peer": stage - 1, "bytes": 64, "label": f"B{mb}"}
            actions += [before] * (stage > 0)
            if fault == "early" and stage == 0:
                actions += [back, after]
            else:
                skips = fault == "torn" and stage == 0 and mb == microbatches - 1
                actions += [after, back][skips:] * (stage + 1 < stages)
            actions += [up] * (stage > 0)
        ranks[str(stage)] = {"actions": actions}
    return {"schema": "planguard.plan/1", "world_size": stages, "ranks": ranks}


def write_lines(path, trials, *, unique):
    """Write lines of plans; return how many have a fault."""
    made = {
        (s, m, fault): json.dumps(plan(s, m, fault))[1:]
        for s in STAGES for m in MICROBATCHES for fault in ("", "early", "torn")
    }  # fmt: skip
    planted = 0
    with path.open("w") as file:
        for number in range(trials):
            rng = random.Random(number)
            stages, microbatches = rng.choice(STAGES), rng.choice(MICROBATCHES)
            params = {"stages": stages, "microbatches": microbatches, "lr": rng.random()}
            params |= {"early": rng.random() < 0.2, "overlap": rng.randint(0, 3)}
            params |= {"order": "torn" if rng.random() < 0.01 else "whole", "seed": number}
            fault = "torn" if params["order"] == "torn" else ""
            fault = fault or ("early" if params["early"] and params["overlap"] == 2 else "")
            planted += bool(fault)
            name = f'"name": "p{number}", ' if unique else ""
            text = "{" + name + made[stages, microbatches, fault]
            file.write(
                f'{{"name": "t{number:07}", "params": {json.dumps(params)}, "plan": {text}}}\n'
            )
    return planted


def measured(command):
    """Run a command; its code, wall and processor seconds, peak MiB of it and of a child."""
    started, before = time.perf_counter(), os.times()
    done = psutil.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    peaks = {}
    while done.poll() is None:
        for one in [done, *children(done)]:
            peaks[one.pid] = max(peaks.get(one.pid, 0), peak(one.pid))
        time.sleep(0.2)
    after = os.times()
    used = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    own = peaks.pop(done.pid, 0)
    return done.returncode, time.perf_counter() - started, used, own, max(peaks.values(), default=0)


def children(process):
    """The processes below one; none where it has ended."""
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def peak(pid):
    """The most memory a process had so far, MiB."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) >> 10 for line in text.splitlines() if "VmHWM" in line), 0)


def main():
    """Screen every size, and print a row of each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", type=int, nargs="*", default=[10_000, 30_000, 100_000])
    parser.add_argument("--files", action="store_true", help="planner files instead of plans")
    parser.add_argument("--unique", action="store_true", help="no two plans of equal bytes")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    print(
        "   trials  step     wall, s  processor, s  ms a trial  parent, MiB  worker, MiB  store, MB"
    )
    for size in args.sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if args.files:
                given = folder / "trials"
                planted = len(screen_files.write(given, size))
            else:
                given = folder / "trials.jsonl"
                planted = write_lines(given, size, unique=args.unique)
            rows(folder, given, size, planted, args.jobs)


def rows(folder, given, size, planted, jobs):
    """Screen, resume, export, and look at what the summary says."""
    store, blocked = folder / "screen.db", folder / "blocked.txt"
    command = [sys.executable, "-m", "planguard", "screen"]
    base = [*command, given, "--store", store, "--jobs", jobs, "--quiet", "--force"]
    steps = {
        "screen": [*base, "--blocked", blocked],
        "resume": [*base, "--resume"],
        "export": [*command, "--store", store, "--export", folder / "rows.csv"],
    }
    for step, line in steps.items():
        code, wall, used, own, worker = measured(line)
        assert code == 1, (step, code)
        print(
            f"{size:9,}  {step:<8}{wall:9.1f}{used:14.1f}{used / size * 1000:12.3f}"
            f"{own:13}{worker:13}{store.stat().st_size / 1e6:11.1f}",
            flush=True,
        )
    assert len(blocked.read_text().split()) == planted
    said = subprocess.run(
        [*command, "--store", store, "--format", "json"], capture_output=True, check=False
    ).stdout
    for one in json.loads(said)["codes"]:
        told = [rule["conditions"] for rule in [one["rule"], *one["more"]] if rule]
        print(f"{'':11}{one['code']} in {one['trials']:,}: {told}", flush=True)


if __name__ == "__main__":
    main()
