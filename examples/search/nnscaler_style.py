"""A search over micro-batch orders under user constraints, in the style of nnScaler.

nnScaler separates what is partitioned (op-trans), where it runs (op-assign) and in which order
(op-order), and lets the user constrain each. Here the first two are fixed: four stages, one per
rank. The order of forward and backward blocks of every stage is searched by local moves, under
constraints on the order. A move changes one rank, so ``Guard.incremental`` decides it without
looking at the rest of the plan; what a constraint rules out is never checked at all.

    python examples/search/nnscaler_style.py
"""

from __future__ import annotations

import random
import time

from planguard import Guard

STAGES = 4
BATCHES = 6
BYTES = 1 << 16


def block(stage, kind, batch):
    """The communications of one block: take from one neighbor, compute, hand on to the other."""
    before, after = (-1, 1) if kind == "F" else (1, -1)
    label = f"{kind}{batch}"
    actions = []
    if 0 <= stage + before < STAGES:
        source = stage + before
        boundary = f"{label}@{min(stage, source)}"
        actions.append({"op": "recv", "peer": source, "bytes": BYTES, "label": boundary})
    actions.append({"op": "compute", "op_name": f"{label} of stage {stage}"})
    if 0 <= stage + after < STAGES:
        target = stage + after
        boundary = f"{label}@{min(stage, target)}"
        send = {"op": "isend", "peer": target, "bytes": BYTES, "label": boundary}
        actions.append(send | {"work": label})
    return actions


def plan_of(orders):
    """The plan of an order of blocks for every stage; sends are waited for at the end."""
    ranks = {}
    for stage, order in enumerate(orders):
        actions = [a for kind, batch in order for a in block(stage, kind, batch)]
        waits = [{"op": "wait", "work": a["work"]} for a in actions if "work" in a]
        ranks[str(stage)] = {"actions": actions + waits}
    return {"schema": "planguard.plan/1", "world_size": STAGES, "ranks": ranks}


def start():
    """All forwards, then all backwards, in two halves: safe, and keeps many activations."""
    half = BATCHES // 2
    order = [(k, b) for low in (0, half) for k in "FB" for b in range(low, low + half)]
    return [order for _ in range(STAGES)]


# --- constraints: each says whether the order of one stage may be tried ---------------------------


def backward_after_forward(_stage, order):
    """The backward of a micro-batch needs its activations."""
    return all(order.index(("F", b)) < order.index(("B", b)) for b in range(BATCHES))


def few_in_flight(_stage, order):
    """No stage may hold more activations than there are stages."""
    held = 0
    for kind, _ in order:
        held += 1 if kind == "F" else -1
        if held > STAGES:
            return False
    return True


CONSTRAINTS = (backward_after_forward, few_in_flight)


def memory(orders):
    """Activations in memory at the worst moment, summed over the stages."""
    total = 0
    for order in orders:
        held = peak = 0
        for kind, _ in order:
            held += 1 if kind == "F" else -1
            peak = max(peak, held)
        total += peak
    return total


def search(guard, steps=3000, seed=0):
    """Move blocks at random, keep what is safe and holds no more activations."""
    rng = random.Random(seed)
    orders = start()
    checker = guard.incremental(plan_of(orders))
    found = {"constraint": 0, "unsafe": 0, "worse": 0, "kept": 0}
    for _ in range(steps):
        stage = rng.randrange(STAGES)
        order = list(orders[stage])
        source = rng.randrange(len(order))
        order.insert(rng.randrange(len(order)), order.pop(source))
        if not all(holds(stage, order) for holds in CONSTRAINTS):
            found["constraint"] += 1
            continue
        candidate = [*orders[:stage], order, *orders[stage + 1 :]]
        if memory(candidate) > memory(orders):
            found["worse"] += 1
        elif not checker.check(permuted(stage, orders[stage], order)).safe:
            found["unsafe"] += 1
        else:
            found["kept"] += 1
            if order != orders[stage]:
                checker = checker.accept(permuted(stage, orders[stage], order))
            orders = candidate
    return orders, found, checker


def permuted(stage, old, new):
    """The change of a rank that puts its blocks into another order."""
    from planguard.guard import Change

    starts, action = {}, 0
    for name in old:
        starts[name] = range(action, action + len(block(stage, *name)))
        action += len(starts[name])
    return Change(stage, 0, action, tuple(place for name in new for place in starts[name]))


def main():
    """Search, and say what was rejected and why."""
    guard = Guard(model="gloo")
    started = time.perf_counter()
    orders, found, checker = search(guard)
    seconds = time.perf_counter() - started
    for stage, order in enumerate(orders):
        print(f"stage {stage}: {' '.join(kind + str(batch) for kind, batch in order)}")
    print(f"activations: {memory(start())} before, {memory(orders)} after")
    print(", ".join(f"{count} {name}" for name, count in found.items()), f"in {seconds:.2f} s")
    print(f"the result is {checker.verdict.outcome.value}")


if __name__ == "__main__":
    main()
