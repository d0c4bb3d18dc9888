"""Measure the decision core, phase by phase, against the goals in docs/benchmarks.md.

    python benchmarks/bench_core.py                  # all tables, a minute or two
    python benchmarks/bench_core.py --sizes 7e3 1e5  # a quick look

Every measurement runs in a process of its own, pinned to one core, and shows the best of its
repetitions: wall clock, and processor time where a busy machine would blur the wall clock.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

import pipeline_plan

HERE = Path(__file__).resolve()
SIZES = ("1e3", "7e3", "1e5", "1e6", "7e6", "1e7", "3e7")
LARGE = "7e6"  # the goals are stated for 16,384 ranks and 7,405,568 actions
PHASES = ("read", "expand", "lower", "run")
SMALL = {
    "schema": "planguard.plan/1",
    "world_size": 2,
    "ranks": {
        "0": {
            "actions": [
                {"op": "send", "peer": 1, "bytes": 4},
                {"op": "recv", "peer": 1, "bytes": 4},
            ]
        },
        "1": {
            "actions": [
                {"op": "recv", "peer": 0, "bytes": 4},
                {"op": "send", "peer": 0, "bytes": 4},
            ]
        },
    },
}


def resident(field="VmRSS"):
    """Give the resident memory of this process, or its peak (VmHWM), in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def expand(kernel, code):
    """Call the kernel as planguard.execution.running.expand does."""
    return kernel.expand(
        code.world_size, code.mesh_sizes, code.group_kind, code.group_mask, code.group_off,
        code.group_members, code.refs, [program.code for program in code.programs],
        array("I", [program.n_slots for program in code.programs]), code.rank_program,
        code.sig_root, code.label_pool, code.aux, 400_000_000,
    )  # fmt: skip


def lower(kernel, columns, code, rules):
    """Call the kernel as planguard.execution.running.executor does."""
    return kernel.lower(
        columns, code.sig_kind, code.sig_bytes, code.sig_dtype, code.sig_redop, code.sig_root,
        code.sig_layout, code.sig_splits, rules, False, array("I"),
    )  # fmt: skip


def phases(size, implementation, repetitions):
    """Time the phases of one size; run in a child process."""
    from planguard import kernels
    from planguard.plan.format import read
    from planguard.semantics.model import find_model, rules_for, strict

    kernel = kernels.use(implementation)
    text = json.dumps(pipeline_plan.make(*pipeline_plan.SIZES[size])).encode()
    model = find_model("gloo")
    rules = rules_for(model, strict(model))
    wall = dict.fromkeys(PHASES, float("inf"))
    cpu = dict(wall)

    def timed(phase, step, *arguments):
        started, used = time.perf_counter(), time.process_time()
        result = step(*arguments)
        wall[phase] = min(wall[phase], time.perf_counter() - started)
        cpu[phase] = min(cpu[phase], time.process_time() - used)
        return result

    before = resident()
    for _ in range(repetitions):
        code = timed("read", read, text).code
        columns = timed("expand", expand, kernel, code)
        lanes = timed("lower", lower, kernel, columns, code, rules)
        state = timed("run", kernel.run, lanes)
        assert state.stuck_lanes == 0, "the plan of the benchmark is safe"
        actions = len(columns.op)
        del columns, lanes, state
    memory = resident("VmHWM") - before
    return {
        "ranks": code.world_size, "actions": actions, "text": len(text), "wall": wall, "cpu": cpu,
        "bytes": memory / actions,
    }  # fmt: skip


def library_call(repetitions):
    """Time planguard.check on 8,328 actions, the size dl2 reports 11.2 s for; run in a child."""
    import planguard

    document = pipeline_plan.make(4, 1, 2, 82)
    plan = planguard.load(document)
    best = float("inf")
    for _ in range(repetitions):
        started = time.perf_counter()
        verdict = planguard.check(plan, model="gloo")
        best = min(best, time.perf_counter() - started)
    return {"actions": verdict.stats.actions, "ms": best * 1e3, "outcome": verdict.outcome.name}


def child(function, *arguments):
    """Run one measurement of this file in a fresh process and give its result."""
    call = json.dumps([function, *arguments])
    result = subprocess.run(
        [sys.executable, str(HERE), "--child", call], check=True, capture_output=True, text=True
    )
    return json.loads(result.stdout)


def command(arguments, repetitions, environment=None):
    """Time a whole process: best wall clock, and its processor time, in milliseconds."""
    best = used = float("inf")
    peak = 0
    for _ in range(repetitions):
        started = time.perf_counter()
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        best = min(best, (time.perf_counter() - started) * 1e3)
        used = min(used, (usage.ru_utime + usage.ru_stime) * 1e3)
        peak = max(peak, usage.ru_maxrss * 1024)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode in {0, 1}, arguments
    return best, used, peak


def table_of_phases(sizes, repetitions):
    """Print nanoseconds of processor time per action, by phase and size."""
    names = "ranks|actions|text, KB|read, ms|expand|lower|run|run, ms|sum, ms|bytes per action"
    print("|", names.replace("|", " | "), "|")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for size in sizes:
        found = child("phases", size, "native", repetitions)
        cpu, n = found["cpu"], found["actions"]
        per = {phase: cpu[phase] * 1e9 / n for phase in PHASES}
        total = sum(cpu.values()) * 1e3
        print(
            f"| {found['ranks']:,} | {n:,} | {found['text'] / 1e3:.0f} | {cpu['read'] * 1e3:.1f} "
            f"| {per['expand']:.1f} | {per['lower']:.1f} | {per['run']:.1f} "
            f"| {cpu['run'] * 1e3:.1f} | {total:.1f} | {found['bytes']:.1f} |"
        )


def ratio_of_twins(size, repetitions):
    """Print how much faster the native kernels are, in one run on one core."""
    native = child("phases", size, "native", max(repetitions, 5))
    twin = child("phases", size, "python", 1)
    print("\n| phase | native, ns/action | Python twin, ns/action | ratio |\n|---|---|---|---|")
    for names in (("expand",), ("lower",), ("run",), ("lower", "run"), ("expand", "lower", "run")):
        fast = sum(native["cpu"][name] for name in names) * 1e9 / native["actions"]
        slow = sum(twin["cpu"][name] for name in names) * 1e9 / twin["actions"]
        print(f"| {' + '.join(names)} | {fast:.1f} | {slow:.0f} | {slow / fast:.0f} |")


def processes(repetitions):
    """Print the time of whole processes, as a user sees it."""
    print("\n| what | goal, ms | wall, ms | processor, ms | peak, MB |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        # The byte code of an installed package is cached; of a fresh clone it may not be.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        small, large = Path(folder) / "small.plan.json", Path(folder) / "large.plan.json"
        small.write_text(json.dumps(SMALL), encoding="ascii")
        plan = pipeline_plan.make(*pipeline_plan.SIZES[LARGE])
        large.write_text(json.dumps(plan), encoding="ascii")
        check = [sys.executable, "-m", "planguard", "check"]
        rows = [
            ("`python -c pass`", None, [sys.executable, "-c", "pass"]),
            ("`python -c 'import planguard'`", 100, [sys.executable, "-c", "import planguard"]),
            ("`planguard check`, two ranks", 300, [*check, str(small), "--model", "gloo"]),
            ("`planguard check`, 16,384 ranks", 400, [*check, str(large), "--model", "gloo"]),
        ]
        for name, goal, arguments in rows:
            command(arguments, 1, environment)  # fills the caches
            wall, used, peak = command(arguments, repetitions, environment)
            print(f"| {name} | {goal or ''} | {wall:.0f} | {used:.0f} | {peak / 1e6:.0f} |")


def main():
    """Print every table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--core", type=int, default=0, help="processor core to run on")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        function, *arguments = json.loads(options.child)
        print(json.dumps({"phases": phases, "library_call": library_call}[function](*arguments)))
        return
    os.sched_setaffinity(0, {options.core})
    load = os.getloadavg()[0]
    print(
        f"Python {platform.python_version()}, {platform.machine()}, load {load:.1f} at the start\n"
    )
    table_of_phases(options.sizes, options.repetitions)
    ratio_of_twins("1e5", options.repetitions)
    processes(options.repetitions)
    found = child("library_call", options.repetitions)
    print(f"\n`planguard.check` on {found['actions']:,} actions: {found['ms']:.1f} ms")


if __name__ == "__main__":
    main()
