"""What the live guard costs: one tick of its thread, and one communication.

    python benchmarks/live_guard.py

Two gloo processes. With and without the guard, side by side in one run, best of five.
"""

from __future__ import annotations

import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CALLS = 2000


def reductions() -> float:
    """Return microseconds per all_reduce of eight floats, best of five."""
    tensor = torch.ones(8)
    best = float("inf")
    for _ in range(5):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(CALLS // 5):
            dist.all_reduce(tensor)
        best = min(best, (time.perf_counter() - start) / (CALLS // 5) * 1e6)
    return best


def run(rank: int, folder: str) -> None:
    """Measure on one rank."""
    from planguard import live

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    plain = reductions()
    guard = live.guard(60.0)
    guarded = reductions()
    start = time.perf_counter()
    for _ in range(2000):
        guard.tick()
    tick = (time.perf_counter() - start) / 2000 * 1e6
    guard.stop()
    dist.barrier()
    again = reductions()
    if rank == 0:
        print(f"all_reduce  {min(plain, again):.1f} us without, {guarded:.1f} us with the guard")
        print(f"tick        {tick:.1f} us, four a second")
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    with tempfile.TemporaryDirectory() as scratch:
        mp.spawn(run, (scratch,), 2)
