"""Ranks put a flag into the store, and all read all."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C like elastic rendezvous"
DIVERGES = False
BY = None
SAMPLES = [True, False]


def job(ready):
    store = dist.distributed_c10d._get_default_store()
    rank = dist.get_rank()
    store.set(f"ready/{rank}", str(int(ready)))
    said = [store.get(f"ready/{one}").decode() for one in range(dist.get_world_size())]
    x = torch.ones(2)
    if "1" in said:
        dist.all_reduce(x)
    dist.barrier()
    return torch.ones(1)
