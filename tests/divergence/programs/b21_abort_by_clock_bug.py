"""A request that waited too long by the clock of its rank is dropped from the batch."""

import time

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B sgl-project/sglang#27221"
DIVERGES = True
BY = 21
SAMPLES = [0.0, 0.6]  # seconds this host was busy


def job(busy):
    start = time.monotonic()
    time.sleep(busy)
    batch = ["request"]
    if time.monotonic() - start > 0.3:
        batch.clear()
    for _ in batch:
        dist.all_reduce(torch.ones(2))
    dist.barrier()
    return torch.ones(1)
