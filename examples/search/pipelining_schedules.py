"""A search over schedules of torch.distributed.pipelining: torch's own, mutated and guarded.

The start is Interleaved1F1B as torch lowers it (examples/pipelining/interleaved1f1b-4x8.csv; torch
is not needed). A mutation moves one cell of one rank. Every unsafe schedule leaves a nogood, a
predicate on the few actions that make it hang; what a nogood matches is pruned without a check.

    python examples/search/pipelining_schedules.py
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import planguard
from planguard import Guard, PlanError

START = Path(__file__).resolve().parents[1] / "pipelining" / "interleaved1f1b-4x8.csv"
LONGEST_MOVE = 6


def rows(path=START):
    """The cells of a schedule file, one list per rank."""
    text = path.read_text(encoding="utf-8")
    return [[cell for cell in line.split(",") if cell] for line in text.splitlines()]


def as_plan(schedule):
    """The plan of a schedule, as the adapter reads it."""
    text = "\n".join(",".join(row) for row in schedule) + "\n"
    return planguard.load(text.encode(), planner="pipelining")


def mutated(schedule, rng):
    """The schedule with one cell of one rank moved a little."""
    rank = rng.randrange(len(schedule))
    row = list(schedule[rank])
    place = rng.randrange(len(row))
    cell = row.pop(place)
    row.insert(max(0, min(len(row), place + rng.randint(-LONGEST_MOVE, LONGEST_MOVE))), cell)
    return [*schedule[:rank], row, *schedule[rank + 1 :]]


def early(schedule):
    """How early the first backward of every rank starts: less is better."""
    return sum(next(i for i, cell in enumerate(row) if "B" in cell) for row in schedule)


def search(guard, steps=300, seed=0):
    """Hill climbing from torch's schedule over safe mutations."""
    rng = random.Random(seed)
    schedule, nogoods = rows(), []
    found = {"refused": 0, "pruned": 0, "unsafe": 0, "safe": 0}
    for _ in range(steps):
        candidate = mutated(schedule, rng)
        try:
            plan = as_plan(candidate)
        except PlanError:  # uses a value before it is received, or sends one it has not computed
            found["refused"] += 1
            continue
        if any(nogood(plan) for nogood in nogoods):
            found["pruned"] += 1
            continue
        verdict = guard.check(plan)
        if verdict.safe:
            found["safe"] += 1
            if early(candidate) <= early(schedule):
                schedule = candidate
            continue
        found["unsafe"] += 1
        nogood = guard.nogood(plan, verdict)
        if nogood is not None:
            nogoods.append(nogood)
    return schedule, found, nogoods


def main():
    """Search, and say what was rejected."""
    guard = Guard(model="nccl")
    started = time.perf_counter()
    schedule, found, nogoods = search(guard)
    seconds = time.perf_counter() - started
    print(f"first backwards: {early(rows())} before, {early(schedule)} after")
    print(", ".join(f"{count} {name}" for name, count in found.items()), f"in {seconds:.2f} s")
    print(f"{len(nogoods)} nogoods, of {len({n.ranks for n in nogoods})} sets of ranks")
    print(f"the result is {guard.check(as_plan(schedule)).outcome.value}")


if __name__ == "__main__":
    main()
