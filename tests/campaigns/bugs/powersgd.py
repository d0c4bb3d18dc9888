"""PowerSGD's hook of DistributedDataParallel on gloo: with more than one bucket it hangs.

    python tests/campaigns/bugs/powersgd.py                # four ranks; 1, 2 and 4 buckets
    python tests/campaigns/bugs/powersgd.py --times 5 --buckets 4

Plain torch on gloo processes, no GPU. The hook compresses from the fourth step on.
Bug 15 of docs/bugs-found-2.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

WIDTH, LAYERS, STEPS, BEFORE = 8, 4, 8, 3


def be_rank(rank: int, world: int, store: str, buckets: int, said: Any) -> None:
    """Train; say every step that is complete."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world)
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))
    size = 4 * WIDTH * WIDTH * LAYERS / buckets / 2**20
    ddp = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=size)
    state = power.PowerSGDState(None, start_powerSGD_iter=BEFORE)
    ddp.register_comm_hook(state, power.powerSGD_hook)
    said.put(0)
    for step in range(STEPS):
        ddp(torch.randn(8, WIDTH)).square().mean().backward()
        said.put(step + 1)
    while said.qsize():  # the queue is empty once the parent has read it
        time.sleep(0.01)
    os._exit(0)


def play(world: int, buckets: int, patience: float) -> str:
    """Run the job once; say how it ended."""
    context, steps = mp.get_context("spawn"), [0]
    said = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        given = (world, f"{folder}/store", buckets, said)
        ranks = [context.Process(target=be_rank, args=(r, *given)) for r in range(world)]
        for one in ranks:
            one.start()
        last = time.monotonic() + 60  # until the first is there
        while any(one.is_alive() for one in ranks) and time.monotonic() < last:
            while not said.empty():
                steps.append(said.get())
                last = time.monotonic() + patience
            time.sleep(0.05)
        stuck = [r for r, one in enumerate(ranks) if one.is_alive()]
        failed = [r for r, one in enumerate(ranks) if not one.is_alive() and one.exitcode]
        for one in ranks:
            one.kill()
            one.join()
    whole = min(steps.count(step) == world for step in range(1, STEPS + 1))
    if whole and not failed:
        return "ended"
    return f"ranks {stuck} stuck, ranks {failed} failed, after step {max(steps)} of {STEPS}"


def main() -> None:
    """Run every number of buckets and print how it ended."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--buckets", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--patience", type=float, default=10, help="seconds without a step")
    given = parser.parse_args()
    for buckets in given.buckets:
        for _ in range(given.times):
            ended = play(given.ranks, buckets, given.patience)
            print(f"torch {torch.__version__}, {given.ranks} ranks, {buckets} buckets: {ended}")


if __name__ == "__main__":
    main()
