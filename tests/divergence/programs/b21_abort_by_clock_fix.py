"""Rank 0 decides, and broadcasts which requests are left."""

import time

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B sgl-project/sglang#27221"
DIVERGES = False
BY = None
SAMPLES = [0.0, 0.6]  # seconds this host was busy


def job(busy):
    start = time.monotonic()
    time.sleep(busy)
    left = [["request"] if time.monotonic() - start <= 0.3 else []]
    dist.broadcast_object_list(left, src=0)
    for _ in left[0]:
        dist.all_reduce(torch.ones(2))
    dist.barrier()
    return torch.ones(1)
