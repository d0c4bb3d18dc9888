"""Measure planguard.Guard: candidates a second with and without the cache, edits, symbolic plans.

    python benchmarks/guard.py                    # all tables, about a minute
    python benchmarks/guard.py --candidates 2000  # a quick look

Everything runs on one core, in this process.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

import pipeline_plan

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "examples" / "search"))

EDITS = ("swap", "move", "delete", "copy", "resize", "insert")
MS = 1e3


def candidates(count):
    """The first leaves of the search of examples/search/alpa_style.py, as documents."""
    import alpa_style

    leaves = itertools.islice(alpa_style.leaves(), count)
    return [alpa_style.communications(*leaf) for leaf in leaves]


def rate(guard, items):
    """Checks a second, by the clock and by the processor time of this process."""
    started, used = time.perf_counter(), time.process_time()
    outcomes = Counter(guard.check(item).outcome.value for item in items)
    wall, cpu = time.perf_counter() - started, time.process_time() - used
    return len(items) / wall, len(items) / cpu, guard.stats, outcomes


def search_rate(count):
    """Rates with documents and with plans as candidates, with the cache and without."""
    import planguard
    from planguard import Guard

    documents = candidates(count)
    some = documents[:: max(1, count // 1500)]
    plans = [planguard.load(document) for document in documents]
    planguard.check(plans[0], model="gloo")  # imports
    cases = (
        ("documents, cache", 10_000, documents),
        ("documents, no cache", 0, some),
        ("plans, cache", 10_000, plans),
        ("plans, no cache", 0, plans[:: max(1, count // 1500)]),
    )
    return [(name, *rate(Guard(model="gloo", max_entries=n), items)) for name, n, items in cases]


def change_of(kind, rng, plan, checker):
    """A random edit of a kind."""
    from planguard.guard import Change

    rank = rng.randrange(plan.world_size)
    size = plan.length(rank)
    place = rng.randrange(size - 1)
    if kind == "swap":
        return Change.swap(rank, place, place + 1)
    if kind == "move":
        return Change.move(rank, place, min(size - 1, max(0, place + rng.randint(-5, 5))))
    if kind == "delete":
        return Change.delete(rank, place)
    if kind == "copy":
        return Change(rank, place, place, (place,))
    if kind == "insert":
        return Change.insert(rank, place, {"op": "compute", "op_name": "new"})
    action = dict(checker.actions(rank)[place])
    if "bytes" in action:
        action["bytes"] += 4
    return Change.replace(rank, place, action)


def edits(repetitions):
    """Milliseconds of a check after an edit of a plan of 116,736 actions, by kind."""
    import planguard
    from planguard import Guard, PlanError
    from planguard.plan.flatten import flatten

    base = planguard.load(pipeline_plan.make(*pipeline_plan.SIZES["1e5"]))
    rows = []
    for form, plan in (("templates", base), ("explicit", planguard.load(flatten(base)))):
        started = time.perf_counter()
        checker = Guard(model="gloo").incremental(plan)
        setup = time.perf_counter() - started
        started = time.perf_counter()
        planguard.check(plan, model="gloo")
        full = time.perf_counter() - started
        rng = random.Random(1)
        for kind in EDITS:
            times, outcomes = [], Counter()
            for _ in range(repetitions):
                change = change_of(kind, rng, plan, checker)
                started = time.perf_counter()
                try:
                    verdict = checker.check(change)
                    outcomes["unsafe" if verdict.unsafe else "safe"] += 1
                except PlanError:
                    outcomes["refused"] += 1
                times.append(time.perf_counter() - started)
            rows.append((form, setup, full, kind, sorted(times), outcomes))
    return rows


def symbolic(repetitions):
    """Milliseconds of a call on a plan of 131,072 ranks."""
    import planguard
    from planguard import Guard
    from planguard.options import CheckOptions
    from planguard.parametric import check_for_all, check_symbolic

    plan = planguard.load(pipeline_plan.make(*pipeline_plan.SIZES["3e7"]))
    options = CheckOptions(model="gloo")
    guard = Guard(model="gloo")
    calls = {
        "check_symbolic": lambda: check_symbolic(plan, options),
        'check_for_all("dp")': lambda: check_for_all(plan, "dp", options),
        "Guard.check, cached": lambda: guard.check(plan),
    }
    rows = []
    for name, call in calls.items():
        best = float("inf")
        for _ in range(repetitions):
            started = time.perf_counter()
            assert call().safe
            best = min(best, time.perf_counter() - started)
        rows.append((name, best))
    return plan, rows


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--core", type=int, help="pin to this core")
    args = parser.parse_args()
    if args.core is not None:
        os.sched_setaffinity(0, {args.core})
    rows = search_rate(args.candidates)
    print(f"{args.candidates:,} candidates of the search: {dict(rows[0][-1])}")
    for name, wall, cpu, stats, _ in rows:
        print(
            f"  {name:20} {wall:7,.0f}/s, {cpu:7,.0f} per processor second"
            f"   hits {stats.hits:,}, misses {stats.misses:,}"
        )
    print("edits of 116,736 actions, 512 ranks (ms)")
    for form, setup, full, kind, times, seen in edits(args.edits):
        median, late = times[len(times) // 2] * MS, times[int(len(times) * 0.9)] * MS
        print(
            f"  {form:9} {kind:7} median {median:7.3f}  p90 {late:7.3f}  {dict(seen)}"
            f"  (set up {setup:.1f} s, full check {full * MS:.1f} ms)"
        )
    plan, rows = symbolic(20)
    print(f"{plan.world_size:,} ranks, symbolic (ms, best of 20)")
    for name, best in rows:
        print(f"  {name:22} {best * MS:7.3f}")


if __name__ == "__main__":
    main()
