"""All decide by the mean."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = False
BY = None
SAMPLES = [0.2, 0.9]


def job(loss):
    mean = torch.tensor(loss)
    dist.all_reduce(mean)
    mean /= dist.get_world_size()
    x = torch.ones(2)
    if mean.item() > 0.5:
        dist.all_reduce(x)
    dist.barrier()
    return x
