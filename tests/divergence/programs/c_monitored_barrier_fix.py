"""All meet in a monitored barrier."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C"
DIVERGES = False
BY = None
SAMPLES = [True, False]


def job(saves):
    dist.monitored_barrier()
    x = torch.ones(2) * saves
    dist.all_reduce(x)
    return x
