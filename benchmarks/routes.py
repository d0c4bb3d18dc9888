"""Time the routes for open orders: pipelines with a window, data parallelism, hard posets.

Run ``python benchmarks/routes.py``; every row is the best of three checks in one process.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import planguard

SIZE = {"bytes": 4}


def windowed(items: list[dict[str, Any]], width: int) -> list[dict[str, Any]]:
    """Let every item pass at most ``width - 1`` neighbors: it comes after all further before it."""
    for at, item in enumerate(items):
        item["id"] = f"i{at}"
        if at >= width:
            item["after"] = [f"i{at - width - k}" for k in range(min(width, at - width + 1))]
    return [{"op": "unordered", "body": items}]


def plan(world: int, groups: dict[str, list[int]], programs: list[list[dict[str, Any]]]) -> Any:
    """Make a plan of explicit programs."""
    return {
        "schema": "planguard.plan/1",
        "world_size": world,
        "groups": {name: {"ranks": ranks} for name, ranks in groups.items()},
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }


def pipeline(actions: int, width: int = 4, ranks: int = 8) -> Any:
    """A pipeline of synchronous sends; within a window of receives and sends a stage may reorder.

    Every micro-batch has a tag of its own, so that rounds stay in order whatever the order is.
    """
    batches = actions // (2 * (ranks - 1))
    programs = []
    for rank in range(ranks):
        items: list[dict[str, Any]] = []
        for batch in range(batches):
            if rank:
                items.append({"op": "recv", "peer": rank - 1, "tag": batch, **SIZE})
            if rank + 1 < ranks:
                items.append({"op": "send", "peer": rank + 1, "tag": batch, **SIZE})
        for item in items:
            item["label"] = f"b{item['tag']}-{rank - (item['op'] == 'recv')}"
        programs.append(windowed(items, width))
    return plan(ranks, {}, programs)


def chains(actions: int, width: int = 4, ranks: int = 8) -> Any:
    """The same pipeline as parallel chains: a stage keeps every fourth micro-batch in order."""
    document = pipeline(actions, width, ranks)
    for rank in document["ranks"].values():
        (block,) = rank["actions"]
        rows: list[list[Any]] = [[] for _ in range(width)]
        for item in block["body"]:
            item.pop("after", None)
            rows[item["tag"] % width].append(item)
        block["body"] = rows
    return document


def data_parallel(actions: int, ranks: int = 8, groups: int = 4) -> Any:
    """All ranks reduce on several groups: asynchronous calls in any order, waits in a chain."""
    names = {f"g{n}": list(range(ranks)) for n in range(groups)}
    steps = actions // (2 * ranks)
    programs = []
    for _ in range(ranks):
        items: list[dict[str, Any]] = []
        for step in range(steps):
            items.append(
                {
                    "op": "all_reduce", "group": f"g{step % groups}", "async": True,
                    "work": f"w{step}", "label": f"s{step}", "id": f"s{step}", **SIZE,
                }
            )  # fmt: skip
            if step >= groups:
                items[-1]["after"] = [f"s{step - groups}"]
        waits = [{"op": "wait", "work": f"w{step}"} for step in range(steps)]
        programs.append([{"op": "unordered", "body": items}, *waits])
    return plan(ranks, names, programs)


def bags(actions: int, ranks: int = 8) -> Any:
    """Bags in a row: in each, a rank does its tensor-parallel and its own pair's reduction."""
    names = {f"tp{n}": [2 * n, 2 * n + 1] for n in range(ranks // 2)}
    names |= {f"solo{n}": [n] for n in range(ranks)}
    steps = actions // (2 * ranks)
    programs = []
    for rank in range(ranks):
        program: list[dict[str, Any]] = []
        for step in range(steps):
            pair = [
                {"op": "all_reduce", "group": f"tp{rank // 2}", "label": f"t{step}", **SIZE},
                {"op": "all_reduce", "group": f"solo{rank}", "label": f"s{step}", **SIZE},
            ]
            program.append({"op": "unordered", "body": pair})
        programs.append(program)
    return plan(ranks, names, programs)


def timed(document: Any, model: str) -> tuple[float, float, Any]:
    """Return milliseconds to load and to check, best of three, and the verdict."""
    loads, checks, verdict = [], [], None
    for _ in range(3):
        start = time.perf_counter()
        loaded = planguard.load(document)
        middle = time.perf_counter()
        verdict = planguard.check(loaded, model=model)
        loads.append(middle - start)
        checks.append(time.perf_counter() - middle)
    return min(loads) * 1e3, min(checks) * 1e3, verdict


PLANS = {"window": pipeline, "chains": chains, "data-parallel": data_parallel, "bags": bags}


def main() -> None:
    """Print one row per plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", type=int, nargs="*", default=[192, 768, 2000])
    parser.add_argument("--model", default="gloo")
    given = parser.parse_args()
    print(f"{'plan':<14} {'actions':>8} {'load ms':>8} {'check ms':>9}  outcome, route")
    for name, make in PLANS.items():
        for actions in given.actions:
            document = make(actions)
            load, check, verdict = timed(document, given.model)
            route = "+".join(verdict.evidence.route)
            print(
                f"{name:<14} {verdict.stats.actions:>8} {load:>8.1f} {check:>9.1f}  "
                f"{verdict.outcome.value}, {route}"
            )


if __name__ == "__main__":
    main()
