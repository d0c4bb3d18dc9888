"""A rank whose loss is above the mean goes another way."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 19
SAMPLES = [0.2, 0.9]


def job(loss):
    value = torch.tensor(loss)
    mean = value.clone()
    dist.all_reduce(mean)
    mean /= dist.get_world_size()
    x = torch.ones(2)
    if value.item() > mean.item() - 1e-6:
        dist.all_reduce(x)
    dist.barrier()
    return torch.ones(1)
