"""Measure how cost grows: actions, ranks, windows, trials; split by phase, with memory.

    python benchmarks/scale.py                # everything: ten minutes, 2 GB
    python benchmarks/scale.py --quick        # small sizes, to see that it runs
    python benchmarks/scale.py --plot-only    # draw the pictures again from the kept results

Writes benchmarks/data/scale.json and scale.csv, and docs/pictures/scale-*.svg. Every point is a
process of its own on one core and the best of its repetitions, in processor time. The limit in the
pictures is the memory the columns and lanes need, written and read once at the bandwidth of a copy
that is measured in the same run.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from array import array
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import bench_core
import pipeline_plan
import scale_plots

HERE = Path(__file__).resolve()
RESULTS = HERE.parent / "data"
PICTURES = HERE.parent.parent / "docs" / "pictures"
PHASES = ("read", "expand", "rounds", "match", "execute", "bags", "explain", "check")
FORMS = ("fixed", "free", "bags")
FIT_FROM = 1e5
"""Actions from which slopes are fitted: below, fixed costs count."""
LINEAR = 1.05
RANKS = {
    8: (2, 2, 2), 64: (4, 4, 4), 512: (8, 16, 4), 4096: (16, 32, 8), 16_384: (16, 128, 8),
    65_536: (32, 256, 8), 131_072: (32, 512, 8),
}  # fmt: skip
WINDOWS = (1, 2, 4, 8, 16, 32, 64)
TRIALS = (100, 316, 1000, 3162, 10_000)


def broken(plan):
    """The same plan, and the second stage waits for one more message than the first sends."""
    wrong = [*plan["templates"]["stage1"], pipeline_plan.transfer("recv", -1)]
    return {**plan, "templates": {**plan["templates"], "stage1": wrong}}


def point(dims, form, repetitions):
    """Time every phase of one plan; run in a child process."""
    import planguard
    from planguard import kernels
    from planguard.plan.actions import Kind
    from planguard.plan.format import read
    from planguard.reordering.orders.weak_fast import _in_block, _queues
    from planguard.semantics.model import find_model, rules_for, strict

    kernel, model = kernels.use("native"), find_model("gloo")
    rules = rules_for(model, strict(model))
    document = pipeline_plan.make(*dims, form)
    text = json.dumps(document).encode()
    best = {}

    def timed(phase, step, *arguments):
        started = time.process_time()
        result = step(*arguments)
        best[phase] = min(best.get(phase, math.inf), time.process_time() - started)
        return result

    before = bench_core.resident()
    for _ in range(repetitions):
        plan = timed("read", read, text)
        code = plan.code
        timed("check", partial(planguard.check, model="gloo"), plan)
        columns = timed("expand", bench_core.expand, kernel, code)
        if form == "fixed":
            lanes = timed("match", bench_core.lower, kernel, columns, code, rules)
        else:
            tables = _queues(columns, model), _in_block(model)
            rounds = timed("rounds", kernel.open_rounds, columns, *tables)
            assert rounds.status == 0
            assert rounds.mixed == (form == "bags")
            lanes = timed(
                "match", kernel.lower, columns, code.sig_kind, code.sig_bytes, code.sig_dtype,
                code.sig_redop, code.sig_root, code.sig_layout, code.sig_splits, rules,
                form == "bags", array("I"),
            )  # fmt: skip
        state = timed("execute", kernel.run, lanes)
        assert state.stuck_lanes == 0
        if form == "bags":
            assert timed("bags", kernel.weak_orders, columns, lanes).status == 0
        entries, words, matches = len(columns.op), len(lanes.code), len(lanes.need)
        del columns, lanes, state
    peak = bench_core.resident("VmHWM")
    if form == "fixed":
        best["explain"] = explain(planguard, read(json.dumps(broken(document)).encode()), best)
    actions = entries - marked(plan, {int(Kind.UNORDERED_BEGIN), int(Kind.UNORDERED_END)})
    return {
        "ranks": code.world_size, "actions": actions, "entries": entries, "words": words,
        "matches": matches, "seconds": best, "peak": peak, "bytes": (peak - before) / actions,
    }  # fmt: skip


def marked(plan, kinds):
    """How many entries of a plan only open or close a block."""
    found = {}
    for number, program in enumerate(plan.code.programs):
        code, times, ends = program.code, 1, []
        for at in range(len(code) // 6):
            while ends and ends[-1][0] <= at:
                times //= ends.pop()[1]
            kind = code[at * 6] & 63
            if kind == 48:  # repeat: how often, and how many instructions
                ends.append((at + 1 + code[at * 6 + 2], code[at * 6 + 1]))
                times *= code[at * 6 + 1]
            found[number] = found.get(number, 0) + times * (kind in kinds)
    return sum(found.get(program, 0) for program in plan.code.rank_program)


def explain(planguard, plan, best):
    """Seconds that a verdict with its findings takes beyond expanding, matching and executing."""
    started = time.process_time()
    verdict = planguard.check(plan, model="gloo")
    used = time.process_time() - started
    assert verdict.outcome.name == "DEADLOCK"
    return max(used - best["expand"] - best["match"] - best["execute"], 1e-9)


def window(width, actions, repetitions):
    """Seconds to check a pipeline whose stages reorder within a window; run in a child."""
    import routes

    import planguard

    plan = planguard.load(routes.pipeline(actions, width))
    best, verdict = math.inf, None
    for _ in range(repetitions):
        started = time.process_time()
        verdict = planguard.check(plan, model="gloo")
        best = min(best, time.process_time() - started)
    return {
        "window": width, "actions": verdict.stats.actions, "seconds": best,
        "outcome": verdict.outcome.value, "route": "+".join(verdict.evidence.route),
        "peak": bench_core.resident("VmHWM"),
    }  # fmt: skip


def screening(trials, jobs=1):
    """Seconds of a whole `planguard screen` of so many trials, all with the cache."""
    import screen_plans

    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "trials.jsonl"
        screen_plans.write_lines(lines, trials)
        command = [
            sys.executable, "-m", "planguard", "screen", str(lines), "--jobs", str(jobs),
            "--store", f"{folder}/all.db", "--quiet", "--force",
        ]  # fmt: skip
        wall, used, peak = bench_core.command(command, 1)
    return {"trials": trials, "wall": wall / 1e3, "seconds": used / 1e3, "peak": peak}


def bandwidth():
    """Bytes a second of a copy far larger than the caches: read and written bytes together."""
    size = 256 << 20
    source, target = bytearray(b"\1") * size, bytearray(b"\2") * size
    best = math.inf
    for _ in range(7):
        started = time.perf_counter()
        target[:] = source
        best = min(best, time.perf_counter() - started)
    return 2 * size / best


def slope(xs, ys):
    """Least-squares slope of log y over log x."""
    pairs = [(math.log(x), math.log(y)) for x, y in zip(xs, ys, strict=True) if y > 0]
    mean_x, mean_y = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
    over = sum((x - mean_x) * (y - mean_y) for x, y in pairs)
    return over / sum((x - mean_x) ** 2 for x, _ in pairs)


def slopes(rows):
    """Slope of every phase over actions, from FIT_FROM on."""
    rows = [row for row in rows if row["actions"] >= FIT_FROM]
    if len(rows) < 3:
        return {}
    xs = [row["actions"] for row in rows]
    phases = [phase for phase in PHASES if all(phase in row["seconds"] for row in rows)]
    # The text of a plan does not grow with the actions; its cost has no slope over them.
    return {
        phase: slope(xs, [row["seconds"][phase] for row in rows])
        for phase in phases
        if phase != "read"
    }


def child(function, *arguments):
    """Run one measurement in a fresh process and give its result."""
    call = json.dumps([function, *arguments])
    done = subprocess.run(
        [sys.executable, str(HERE), "--child", call], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def measure(quick, repetitions):
    """Run everything and give the document that is kept."""
    sizes = list(pipeline_plan.SIZES)[: 3 if quick else None]
    ranks = [n for n in RANKS if not quick or n <= 512]
    found = {"actions": {}, "ranks": {}}
    for form in FORMS:
        found["actions"][form] = [
            child("point", pipeline_plan.SIZES[size], form, repetitions) for size in sizes
        ]
        report(f"actions, {form}", found["actions"][form])
    for form in FORMS:
        found["ranks"][form] = [child("point", (*RANKS[n], 16), form, repetitions) for n in ranks]
        report(f"ranks, {form}", found["ranks"][form])
    found["windows"] = [child("window", w, 2000, repetitions) for w in WINDOWS[: 3 if quick else 7]]
    print(
        *(f"window {r['window']}: {r['seconds'] * 1e3:.0f} ms" for r in found["windows"]), sep=", "
    )
    found["trials"] = [screening(n) for n in TRIALS[: 2 if quick else None]]
    return found


def report(name, rows):
    """Print what was measured, in nanoseconds an action."""
    print(name)
    for row in rows:
        per = {p: round(s * 1e9 / row["actions"], 2) for p, s in row["seconds"].items()}
        print(
            f"  {row['ranks']:>7,} ranks {row['actions']:>11,} actions {row['bytes']:6.1f} B", per
        )
    steep = {p: round(s, 3) for p, s in slopes(rows).items()}
    print("  slopes", steep, "ABOVE LINEAR" if any(s > LINEAR for s in steep.values()) else "")


def rows_of(found):
    """Every measured number as a row of a table: sweep, form, ranks, x, phase, seconds."""
    for sweep, axis in (("actions", "actions"), ("ranks", "ranks")):
        for form, rows in found[sweep].items():
            for row in rows:
                for phase, seconds in row["seconds"].items():
                    yield sweep, form, row[axis], row["actions"], phase, seconds, row["peak"]
    for row in found["windows"]:
        x, actions, seconds = row["window"], row["actions"], row["seconds"]
        yield "windows", row["route"], x, actions, "check", seconds, row["peak"]
    for row in found["trials"]:
        yield "trials", "screen", row["trials"], "", "check", row["seconds"], row["peak"]


def main():
    """Measure, keep, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes; keeps nothing")
    parser.add_argument("--plot-only", action="store_true")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--core", type=int, default=0, help="processor core to run on")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        function, *arguments = json.loads(options.child)
        print(json.dumps({"point": point, "window": window}[function](*arguments)))
        return
    kept = RESULTS / "scale.json"
    if options.plot_only:
        found = json.loads(kept.read_text(encoding="ascii"))
    else:
        os.sched_setaffinity(0, {options.core})
        load = os.getloadavg()[0]
        found = {
            "date": datetime.now(UTC).date().isoformat(), "python": platform.python_version(),
            "machine": platform.machine(), "load": [load], "bandwidth": bandwidth(),
        }  # fmt: skip
        found |= measure(options.quick, options.repetitions)
        found["bandwidth"] = max(found["bandwidth"], bandwidth())
        found["load"].append(os.getloadavg()[0])
        found["slopes"] = {
            f"{sweep}, {form}": slopes(rows)
            for sweep in ("actions", "ranks")
            for form, rows in found[sweep].items()
        }
    if options.quick:
        return
    if not options.plot_only:
        kept.write_text(json.dumps(found, indent=1) + "\n", encoding="ascii")
        with (RESULTS / "scale.csv").open("w", encoding="ascii", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["sweep", "form", "x", "actions", "phase", "seconds", "peak_bytes"])
            out.writerows(rows_of(found))
    for name, picture in scale_plots.draw(found).items():
        (PICTURES / f"scale-{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
