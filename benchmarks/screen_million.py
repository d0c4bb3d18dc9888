"""Screen many trials at several sizes: does time grow with them, and memory not?

    python benchmarks/screen_million.py                          # plans: 10,000, 30,000, 100,000
    python benchmarks/screen_million.py 2000 6000 20000 --files  # planner files
    python benchmarks/screen_million.py 1000000                  # the whole of it
    python benchmarks/screen_million.py 1000000 --interrupt      # killed on the way, and resumed

Of every size: processor time of all processes, the largest memory of each, the size of the store;
then the same with ``--resume``, where nothing is left to do, the summary of the store, and the
export of all rows.

From plans: lines of a JSONL file, one of 240 plans each (a pipeline of 2 to 9 stages with 2 to 16
microbatches), with parameters of its own. ``--unique`` gives every plan a name of its own, so that
no two are equal bytes; ``--sizes`` gives it messages of its own size, so that no two communicate
alike, and each is read, signed and decided. From files: folders as ``screen_files.py`` writes them.
A fault is planted where ``early`` is true and ``overlap`` is 2, and in a second place where
``order`` is "torn"; the summary has to name both.

What is compared: every exported row with what the generator says of that trial, where outcome and
codes are those that ``planguard.check`` gives each of the 720 plans by itself; the numbers of the
summary with a count of the same; the blocked names with the planted ones; and with ``--interrupt``
the bytes of the export with those of a screening that was killed at a random point and resumed.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
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


def trial(number):
    """The choices behind a trial: stages, microbatches, fault and parameters."""
    rng = random.Random(number)
    stages, microbatches = rng.choice(STAGES), rng.choice(MICROBATCHES)
    params = {"stages": stages, "microbatches": microbatches, "lr": rng.random()}
    params |= {"early": rng.random() < 0.2, "overlap": rng.randint(0, 3)}
    params |= {"order": "torn" if rng.random() < 0.01 else "whole", "seed": number}
    fault = "torn" if params["order"] == "torn" else ""
    fault = fault or ("early" if params["early"] and params["overlap"] == 2 else "")
    return stages, microbatches, fault, params


def write_lines(path, trials, *, unique=False, sizes=False):
    """Write lines of plans; return how many have a fault."""
    made = {
        (s, m, fault): json.dumps(plan(s, m, fault))[1:]
        for s in STAGES for m in MICROBATCHES for fault in ("", "early", "torn")
    }  # fmt: skip
    planted = 0
    with path.open("w") as file:
        for number in range(trials):
            stages, microbatches, fault, params = trial(number)
            planted += bool(fault)
            text = made[stages, microbatches, fault]
            if sizes:
                text = text.replace('"bytes": 64', f'"bytes": {64 + number}')
            text = "{" + (f'"name": "p{number}", ' if unique else "") + text
            file.write(
                f'{{"name": "t{number:07}", "params": {json.dumps(params)}, "plan": {text}}}\n'
            )
    return planted


def compared(rows, size):
    """Compare exported rows with the generator, one by one; counts by outcome and code."""
    import planguard

    said = {}
    for s in STAGES:
        for m in MICROBATCHES:
            for fault in ("", "early", "torn"):
                verdict = planguard.check(plan(s, m, fault))
                codes = sorted({finding.code for finding in verdict.findings})
                first = verdict.findings[0].code if verdict.findings else ""
                said[s, m, fault] = verdict.outcome.value, first, " ".join(codes)
    counts = Counter()
    with rows.open(newline="") as file:
        number = -1
        for number, row in enumerate(csv.DictReader(file)):
            stages, microbatches, fault, params = trial(number)
            assert row["name"] == f"t{number:07}", row
            got = row["outcome"], row["code"], row["codes"]
            assert got == said[stages, microbatches, fault], (row, said)
            for name, value in params.items():
                shown = json.dumps(value) if isinstance(value, bool) else str(value)
                assert row[f"param.{name}"].lower() == shown.lower(), (row, name, value)
            counts[got[0], got[1]] += 1
    assert number + 1 == size, number
    return counts


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
    parser.add_argument("numbers", type=int, nargs="*", default=[10_000, 30_000, 100_000])
    parser.add_argument("--files", action="store_true", help="planner files instead of plans")
    parser.add_argument("--unique", action="store_true", help="a name for every plan")
    parser.add_argument("--sizes", action="store_true", help="no two plans of one skeleton")
    parser.add_argument("--interrupt", action="store_true", help="kill one, and resume it")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder by default")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    print(
        "   trials  step     wall, s  processor, s  ms a trial  parent, MiB  worker, MiB  store, MB"
    )
    for size in args.numbers:
        with tempfile.TemporaryDirectory(dir=args.folder) as name:
            folder = Path(name)
            if args.files:
                given = folder / "trials"
                planted = len(screen_files.write(given, size))
            else:
                given = folder / "trials.jsonl"
                planted = write_lines(given, size, unique=args.unique, sizes=args.sizes)
            rows(folder, given, size, planted, args)


def rows(folder, given, size, planted, args):
    """Screen, resume, export, and compare what they say."""
    store, blocked, exported = folder / "screen.db", folder / "blocked.txt", folder / "rows.csv"
    command = [sys.executable, "-m", "planguard", "screen"]
    base = [*command, given, "--jobs", args.jobs, "--quiet", "--force"]
    steps = {
        "screen": [*base, "--store", store, "--blocked", blocked],
        "resume": [*base, "--store", store, "--resume"],
        "summary": [*command, "--store", store, "--quiet"],
        "export": [*command, "--store", store, "--export", exported],
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
    summary = json.loads(said)
    for one in summary["codes"]:
        told = [rule["conditions"] for rule in [one["rule"], *one["more"]] if rule]
        print(f"{'':11}{one['code']} in {one['trials']:,}: {told}", flush=True)
    if not args.files:
        counts = compared(exported, size)
        outcomes = Counter()
        for (outcome, _), count in counts.items():
            outcomes[outcome] += count
        assert summary["trials"] == dict(outcomes), (summary["trials"], outcomes)
        for one in summary["codes"]:
            assert one["trials"] == sum(n for (_, code), n in counts.items() if code == one["code"])
        print(f"{'':11}every row and the summary are as the generator says", flush=True)
    if args.interrupt:
        print(f"{'':11}{interrupted(folder, base, size, exported)}", flush=True)


def interrupted(folder, base, size, exported):
    """Kill a screening at a random point, resume it, and compare the bytes of the export."""
    store, again = folder / "killed.db", folder / "again.csv"
    until = random.SystemRandom().randrange(size // 20, size - size // 20)
    process = subprocess.Popen(
        list(map(str, [*base, "--store", store])),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    done = 0
    while process.poll() is None and done < until:
        time.sleep(0.1)
        done = counted(store)
    process.kill()
    process.wait()
    done = counted(store)
    assert done < size, "it was over before it was killed"
    code, wall, used, own, _ = measured([*base, "--store", store, "--resume", "--export", again])
    assert code == 1, code
    same = digest(again) == digest(exported)
    assert same, "OTHER BYTES"
    return (
        f"killed at {done:,} rows; resumed in {wall:.1f} s, {used:.1f} s of processor, "
        f"{own} MiB: same bytes"
    )


def counted(store):
    """Rows that are committed; 0 where there is no store yet."""
    try:
        with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as db:
            return db.execute("SELECT count(*) FROM trials").fetchone()[0]
    except sqlite3.Error:
        return 0


def digest(path):
    """Hash of a file that need not fit into memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    main()
