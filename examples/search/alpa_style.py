"""Branch and bound over pipeline stages and submeshes, in the style of Alpa's two-level search.

The outer search cuts the layers into stages and gives each stage a submesh (data x tensor
parallelism); the inner one picks a sharding for every layer. A leaf also picks how the stages talk:
the order of a stage's transfers and whether sends are asynchronous. The cost model knows nothing of
communication order, so some of the cheapest leaves hang. Guard rejects them before they are costed.

    python examples/search/alpa_style.py
"""

from __future__ import annotations

import itertools
import time

from planguard import Guard

LAYERS = 6
DEVICES = 8
ACTIVATION = 1 << 20
GRADIENT = 4 << 20
SLACK = 1.5
SUBMESHES = ((1, 2), (2, 1), (2, 2), (1, 4), (4, 1))
# (name, seconds per layer and micro-batch, all_reduces per layer): what the inner search chooses.
SHARDINGS = (("column-row", 1.00, 1), ("row-column", 1.02, 1), ("replicated", 1.60, 0))
TRANSFERS = ("receive-first", "send-first")
SENDS = ("async", "sync")


def leaves(micro_batches=(2, 4)):
    """Yield every complete choice, depth first: stages, submeshes, shardings, transfers."""
    for stages in (4, 2):
        for cuts in itertools.combinations(range(1, LAYERS), stages - 1):
            sizes = [b - a for a, b in itertools.pairwise((0, *cuts, LAYERS))]
            for mesh in SUBMESHES:
                if mesh[0] * mesh[1] * stages != DEVICES:
                    continue
                for choice in itertools.product(SHARDINGS, repeat=stages):
                    for batches in micro_batches:
                        for transfer, send in itertools.product(TRANSFERS, SENDS):
                            yield sizes, mesh, choice, batches, transfer, send


def lower_bound(sizes, mesh, choice, batches, transfer, send):
    """Seconds that a leaf needs at least: the slowest stage works on every micro-batch.

    A stage that sends first hides a transfer behind the next step; a blocking send saves a buffer.
    """
    slowest = max(n * seconds for n, (_, seconds, _) in zip(sizes, choice, strict=True))
    seconds = slowest * (batches + len(sizes) - 1) / (batches * mesh[0] * mesh[1] ** 0.8)
    return seconds * (0.9 if transfer == "send-first" else 1) * (0.97 if send == "sync" else 1)


def stage_program(stage, stages, reductions, batches, transfer, send):
    """The communications of one stage: forward and backward of every micro-batch, then gradients.

    With ``send-first`` a stage hands its gradient on before it takes the next activation; the
    neighbor does the same in the other direction, and two blocking sends face each other.
    """
    first, last = stage == 0, stage == stages - 1

    def transfer_to(delta, work):
        action = {"op": "send" if send == "sync" else "isend", "peer": {"pp": delta}}
        action |= {"group": "pp", "bytes": ACTIVATION}
        if send == "sync":
            return [action]
        return [action | {"work": work}, {"op": "wait", "work": work}]

    def receive_from(delta):
        return [{"op": "recv", "peer": {"pp": delta}, "group": "pp", "bytes": ACTIVATION}]

    reduce = [{"op": "all_reduce", "group": "tp", "bytes": ACTIVATION}] * reductions
    forward = [*([] if first else receive_from(-1)), *reduce]
    onward = [] if last else transfer_to(1, "forward")
    back = [*([] if last else receive_from(1)), *reduce]
    backward = [] if first else transfer_to(-1, "backward")
    if transfer == "receive-first":
        steps = [*forward, *onward, *back, *backward]
        return [{"op": "repeat", "times": batches, "body": steps}, *gradients()]
    if first:
        # The first stage runs one micro-batch ahead.
        turns = {"op": "repeat", "times": batches - 1, "body": [*forward, *onward, *back]}
        return [*forward, *onward, turns, *back, *gradients()]
    # One gradient is kept back and sent at the start of the next turn.
    steady = [*backward, *forward, *onward, *back]
    turns = {"op": "repeat", "times": batches - 1, "body": steady}
    return [*forward, *onward, *back, turns, *backward, *gradients()]


def gradients():
    """Reduce the gradients of a stage over its replicas, one bucket after the other."""
    bucket = {"op": "all_reduce", "group": "dp", "bytes": GRADIENT, "async": True}
    waits = [{"op": "wait", "work": f"g{i}"} for i in range(2)]
    return [*(bucket | {"work": f"g{i}"} for i in range(2)), *waits]


def communications(sizes, mesh, choice, batches, transfer, send):
    """The plan of a leaf, as a document of the plan format."""
    stages = len(sizes)
    templates = {}
    for stage, (layers, (_, _, reductions)) in enumerate(zip(sizes, choice, strict=True)):
        templates[f"s{stage}"] = stage_program(
            stage, stages, layers * reductions, batches, transfer, send
        )
    return {
        "schema": "planguard.plan/1",
        "world_size": DEVICES,
        "mesh": {"dims": [["pp", stages], ["dp", mesh[0]], ["tp", mesh[1]]]},
        "groups": {name: {"mesh_dims": [name]} for name in ("pp", "dp", "tp")},
        "templates": templates,
        "ranks": {f"pp={stage}": {"template": f"s{stage}"} for stage in range(stages)},
    }


def search(guard, limit=None):
    """Return the cheapest safe leaf, its cost, and how many leaves were pruned and rejected.

    Leaves within ``SLACK`` of the best are checked as well: they are what a planner would profile.
    """
    best, cost, pruned, rejected = None, float("inf"), 0, 0
    for leaf in itertools.islice(leaves(), limit):
        bound = lower_bound(*leaf)
        if bound >= SLACK * cost:
            pruned += 1
            continue
        if not guard.check(communications(*leaf)).safe:
            rejected += 1
            continue
        if bound < cost:
            best, cost = leaf, bound
    return best, cost, pruned, rejected


def main():
    """Search, and say what was rejected."""
    guard = Guard(model="gloo")
    started = time.perf_counter()
    best, cost, pruned, rejected = search(guard)
    seconds = time.perf_counter() - started
    sizes, mesh, choice, batches, transfer, send = best
    print(f"best: layers {sizes}, dp x tp {mesh}, {batches} micro-batches, {transfer}, {send}")
    print(f"shardings: {', '.join(name for name, _, _ in choice)}; cost {cost:.3f}")
    print(f"{pruned} leaves pruned by cost, {rejected} rejected as unsafe")
    stats = guard.stats
    print(f"{stats.checks} checks, {stats.hits} from the cache, in {seconds:.2f} s")


if __name__ == "__main__":
    main()
