"""Ranks vote in the store, meet, and act on the sum."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C"
DIVERGES = False
BY = None
SAMPLES = [0, 2]


def job(extra):
    store = dist.distributed_c10d._get_default_store()
    store.add("votes", 1 + extra)
    dist.barrier()
    x = torch.ones(2)
    if store.add("votes", 0) > 3:
        dist.all_reduce(x)
    dist.barrier()
    return torch.ones(1)
