"""What a precheck costs: time, processor time and memory of the figures in docs/how-to/precheck.md.

    python benchmarks/precheck_cost.py [small|samples|transformer|rounds ...]

Each figure is taken in a process of its own, behind one play that imports what torch imports late.
Memory is the greatest sum over this process and its ranks (proportional set size, every 0.1 s).
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from planguard.capture import precheck

LAYERS, WIDTH, HEADS, TOKENS = 12, 768, 12, 64


def step(rows: int) -> None:
    """One step of DDP."""
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    model(torch.ones(rows, 8)).sum().backward()


def shard(rows: int) -> None:
    """One step of a transformer with FSDP2."""
    torch.manual_seed(0)
    with torch.device("meta"):
        layers = [
            torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True)
            for _ in range(LAYERS)
        ]
    model = torch.nn.Sequential(*layers)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device="cpu")
    model(torch.ones(rows, TOKENS, WIDTH)).sum().backward()


def step_once() -> None:
    """Ten rounds of DDP: nothing is asked."""
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    for _ in range(10):
        model(torch.ones(4, 8)).sum().backward()


def agreed(count: int) -> None:
    """A step without a model: as many calls as all agree on."""
    least = torch.tensor(count)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    for _ in range(int(least)):
        dist.all_reduce(torch.ones(1))


def rounds(loader: object) -> None:
    """A loop of equal rounds."""
    for _ in loader:
        dist.all_reduce(torch.ones(1))


def own_values() -> None:
    """Ten rounds of a model; each rank agrees on its loss before it decides: no further play."""
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    for _ in range(10):
        loss = model(torch.rand(4, 8) + dist.get_rank()).sum()
        loss.backward()
        loss = loss.detach()
        dist.all_reduce(loss)
        if loss.item() < 0:
            dist.barrier()


def own_decisions() -> None:
    """The same, with a decision of each rank's own that issues nothing: further plays."""
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    best = 1e9
    for _ in range(10):
        loss = model(torch.ones(4, 8) + dist.get_rank()).sum()
        loss.backward()
        best = min(best, loss.item())


def own_sizes() -> None:
    """The same, with rows that a mask of its own keeps."""
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    for _ in range(10):
        x = torch.ones(4, 8) + dist.get_rank()
        model(x).sum().backward()
        kept = x[x.sum(1) > 9]
        if len(kept):
            kept += 1


FIGURES = {
    "small": [(agreed, {"world_size": 2, "samples": [2]})],
    "samples": [
        (agreed, {"world_size": 2, "samples": list(range(1, 1 + n))}) for n in (1, 2, 3, 4)
    ],
    "ddp": [(step, {"world_size": 2, "samples": list(range(1, 1 + n))}) for n in (1, 4)],
    "transformer": [
        (shard, {"world_size": 8, "samples": list(range(1, 1 + n)), "compute": "stub"})
        for n in (1, 2, 3)
    ],
    "own": [(job, {"world_size": 2}) for job in (step_once, own_values, own_decisions, own_sizes)],
    "rounds": [
        (rounds, {"world_size": 2, "steps_per_rank": [100, 100]}),
        (rounds, {"world_size": 2, "steps_per_rank": [100_000, 100_000], "rounds": 60}),
    ],
}


def _share(pid: int) -> int:
    """Return the proportional set size of a process and its children, in bytes."""
    total = 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return total + sum(_share(int(child)) for child in children)


def main() -> None:
    """Measure what is named, or everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    asked = parser.parse_args().figures or list(FIGURES)
    if unknown := [name for name in asked if name not in FIGURES]:
        parser.error(f"no figure {unknown[0]!r}; there are {', '.join(FIGURES)}")
    for name in asked:
        job = FIGURES[name][0][0]
        first = FIGURES[name][0][1]
        precheck(**first, on_unsafe="return").run(job)  # imports
        for job, options in FIGURES[name]:
            peak, over = [0], threading.Event()

            def look(peak: list[int] = peak, over: threading.Event = over) -> None:
                while not over.wait(0.1):
                    peak[0] = max(peak[0], _share(os.getpid()))

            watcher = threading.Thread(target=look)
            watcher.start()
            began, used = time.perf_counter(), os.times()
            check = precheck(**options, on_unsafe="return")
            verdict = check.run(job)
            wall, now = time.perf_counter() - began, os.times()
            over.set()
            watcher.join()
            spent = sum(now[:4]) - sum(used[:4])
            what = len(options.get("samples", ())) or options.get("steps_per_rank") or job.__name__
            print(
                f"{name} {what}: {verdict.outcome.value}, {len(check.assignments)} plays, "
                f"{wall:.2f} s, {spent:.2f} s of processors, {peak[0] / 2**20:.0f} MiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
