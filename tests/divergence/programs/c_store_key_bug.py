"""Ranks put a flag into the store, and each reads the other's."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C like elastic rendezvous"
DIVERGES = True
BY = 19
SAMPLES = [True, False]


def job(ready):
    store = dist.distributed_c10d._get_default_store()
    rank = dist.get_rank()
    store.set(f"ready/{rank}", str(int(ready)))
    other = store.get(f"ready/{1 - rank}").decode()
    x = torch.ones(2)
    if other == "1":
        dist.all_reduce(x)
    dist.barrier()
    return torch.ones(1)
