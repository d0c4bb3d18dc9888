"""dl2's Table 3: can gradients of Swin-T be reduced out of round, by number and size of buffers?

The policy is not stated in the paper. This one was fitted to its answers: all 20 are those of the
paper under each of four ways to deal tensors to buffers, so they do not depend on that. The numbers
of buckets do, and no way gives all of the paper's; beside each cell stands what the paper prints.

* 173 tensors, fp32, in the order of the parameters (``registration``) or the other way round, as
  gradients become ready (``readiness``); MB means 2**20 bytes;
* the tensors are dealt to the buffers in turn, or each to the least loaded buffer; each buffer is
  packed greedily into fixed buckets, flushed before it would overflow;
* a bucket is launched when all of it is ready; the last one of each buffer is drained at the end,
  in the order of the buffers (64 MB is "No" because at most one bucket is not such a last one);
* gradients become ready block by block of the network, in any order inside a block; nothing is
  coordinated between ranks.

Run ``python tests/campaigns/table3.py`` for the table and its time.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.semantics.fusion import launch_conflict, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA = Path(__file__).parent / "data" / "swin_tiny.json"
BUFFERS = (1, 2, 4, 8)
SIZES_MB = (1, 2, 4, 8, 64)
ORDERS = ("registration", "readiness")
DEALINGS = ("in turn", "least loaded")

# Buckets by number and size of buffers, as printed in the paper's Table 3.
PAPER = {
    1: (64, 55, 28, 19, 2),
    2: (61, 48, 28, 19, 2),
    4: (63, 50, 28, 18, 4),
    8: (60, 57, 32, 20, 8),
}


def tensors() -> list[tuple[str, int]]:
    """Return the names of the parameters of Swin-T and their sizes in bytes, fp32."""
    return [(name, 4 * count) for name, count in json.loads(DATA.read_text(encoding="utf-8"))]


def window(name: str) -> str:
    """Return the block of the network that a parameter belongs to, else its module."""
    head, found, tail = name.partition(".blocks.")
    return f"{head}.{tail.partition('.')[0]}" if found else name.rpartition(".")[0]


def windows(names: Sequence[str]) -> list[list[int]]:
    """Return runs of tensors that become ready in any order."""
    runs: list[list[int]] = []
    for at, name in enumerate(names):
        if not at or window(names[at - 1]) != window(name):
            runs.append([])
        runs[-1].append(at)
    return runs


def masks(runs: Sequence[Sequence[int]]) -> list[int]:
    """Return for every tensor the bit mask of those that are always ready before it."""
    return [(1 << run[0]) - 1 for run in runs for _ in run]


def deal(sizes: Sequence[int], buffers: int, dealing: str) -> list[list[int]]:
    """Return the tensors of each buffer, in their order."""
    if dealing == "in turn":
        return [list(range(first, len(sizes), buffers)) for first in range(buffers)]
    dealt: list[list[int]] = [[] for _ in range(buffers)]
    load = [0] * buffers
    for at, size in enumerate(sizes):
        least = load.index(min(load))
        dealt[least].append(at)
        load[least] += size
    return dealt


def cell(
    below: Sequence[int], sizes: Sequence[int], buffers: int, cap: int, dealing: str = "in turn"
) -> tuple[bool, int]:
    """Return whether two ranks can reduce out of round, and how many buckets there are."""
    dealt = [pack(own, sizes, cap) for own in deal(sizes, buffers, dealing)]
    filled = tuple(bucket for buckets in dealt for bucket in buckets[:-1])
    return launch_conflict(below, filled) is not None, sum(map(len, dealt))


def table(
    order: str = "registration", dealing: str = "in turn"
) -> dict[tuple[int, int], tuple[bool, int]]:
    """Return all cells by number of buffers and their size in MB."""
    named = tensors() if order == "registration" else tensors()[::-1]
    below = masks(windows([name for name, _ in named]))
    sizes = [size for _, size in named]
    return {
        (count, size): cell(below, sizes, count, size << 20, dealing)
        for count in BUFFERS
        for size in SIZES_MB
    }


def distance(cells: dict[tuple[int, int], tuple[bool, int]]) -> tuple[int, int]:
    """Return how many counts are the paper's, and the sum of the differences of the others."""
    off = [
        abs(cells[count, size][1] - printed)
        for count in BUFFERS
        for size, printed in zip(SIZES_MB, PAPER[count], strict=True)
    ]
    return off.count(0), sum(off)


def plan(buffers: int, size_mb: int, coordination: str = "none", ranks: int = 2) -> dict[str, Any]:
    """Return a cell as a plan of data-parallel ranks.

    Args:
        buffers: Number of buffers.
        size_mb: Size of each, in 2**20 bytes.
        coordination: ``none``; ``rank0-broadcast`` as DDP; ``negotiated`` as Horovod.
        ranks: How many; two in the paper's table.
    """
    named = tensors()
    names = [name for name, _ in named]
    fixed = {"op": "all_reduce", "async": True}
    body = [{**fixed, "bytes": n, "id": name, "label": name, "work": name} for name, n in named]
    blocks = [{"op": "unordered", "body": [body[at] for at in run]} for run in windows(names)]
    return {
        "schema": "planguard.plan/1",
        "name": f"swin-t, {buffers} x {size_mb} MB",
        "world_size": ranks,
        "templates": {"backward": [*blocks, {"op": "wait", "work": names}]},
        "fusion": [
            {
                "id": "gradients",
                "group": "world",
                "cap_bytes": size_mb << 20,
                "buffers": buffers,
                "coordination": coordination,
                "membership": "fixed",
                "launch": "ordered" if coordination == "rank0-broadcast" else "when-ready",
                "drain": "ordered",
                "members": names,
            }
        ],
        "ranks": {f"0-{ranks - 1}": {"template": "backward"}},
    }


def rule_times(rounds: int = 20) -> list[float]:
    """Return the seconds that the exact rule takes for all 20 cells, from sizes and partial order.

    Parameters are listed and the partial order is built before the clock starts; packing the
    buckets of every cell is inside.
    """
    named = tensors()
    below = masks(windows([name for name, _ in named]))
    sizes = [size for _, size in named]
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        for count in BUFFERS:
            for size in SIZES_MB:
                cell(below, sizes, count, size << 20)
        times.append(time.perf_counter() - started)
    return times


def check_times(coordination: str) -> tuple[float, set[str]]:
    """Return the seconds that ``planguard.check`` takes for all 20 plans, and the outcomes."""
    import planguard

    plans = [planguard.load(plan(n, size, coordination)) for n in BUFFERS for size in SIZES_MB]
    started = time.perf_counter()
    verdicts = [planguard.check(one) for one in plans]
    elapsed = time.perf_counter() - started
    return elapsed, {verdict.outcome.value for verdict in verdicts}


def main() -> None:
    """Print the table, what coordination makes of it, and times."""
    for order in ORDERS:
        for dealing in DEALINGS:
            cells = table(order, dealing)
            equal, off = distance(cells)
            print(f"{order}, {dealing}: {equal} of 20 counts as printed, {off} off in all")
            print("buffers" + "".join(f"{size:>9} MB" for size in SIZES_MB))
            for count in BUFFERS:
                row = [
                    _text(cells[count, size], printed)
                    for size, printed in zip(SIZES_MB, PAPER[count], strict=True)
                ]
                print(f"{count:>7}" + "".join(f"{text:>12}" for text in row))
    print(f"rule, 20 cells: {min(rule_times()) * 1e3:.2f} ms")
    for coordination in ("none", "rank0-broadcast", "negotiated"):
        elapsed, outcomes = check_times(coordination)
        print(f"check, {coordination}, 20 plans: {elapsed * 1e3:.0f} ms, {sorted(outcomes)}")


def _text(found: tuple[bool, int], printed: int) -> str:
    is_unsafe, count = found
    return f"{'Yes' if is_unsafe else 'No'} {count}/{printed}"


if __name__ == "__main__":
    main()
