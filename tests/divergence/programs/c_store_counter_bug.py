"""Ranks vote in the store one after the other, and act on what the counter was when they came."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C"
DIVERGES = True
BY = 19
SAMPLES = [0, 2]


def job(extra):
    store = dist.distributed_c10d._get_default_store()
    total = store.add("votes", 1 + extra) if dist.get_rank() == 0 else 0
    dist.barrier()
    total = total or store.add("votes", 1 + extra)
    x = torch.ones(2)
    if total > 3:
        dist.all_reduce(x)
    dist.barrier()
    return torch.ones(1)
