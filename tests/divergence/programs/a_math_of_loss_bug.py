"""The root of a sum and of what only the rank has."""

import math
import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 18
SAMPLES = [1.0, 9.0]


def job(loss):
    value = torch.tensor(loss)
    dist.all_reduce(value)
    x = torch.ones(2)
    for _ in range(math.floor(math.sqrt(value.item() + 4 * loss))):
        dist.all_reduce(x)
    dist.barrier()
    return torch.ones(1)
