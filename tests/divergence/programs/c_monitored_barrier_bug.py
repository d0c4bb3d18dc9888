"""Only ranks that save meet in a monitored barrier."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C"
DIVERGES = True
BY = 14
SAMPLES = [True, False]


def job(saves):
    if saves:
        dist.monitored_barrier()
    x = torch.ones(2)
    dist.all_reduce(x)
    return x
