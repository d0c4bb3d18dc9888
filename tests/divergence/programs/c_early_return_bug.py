"""A rank without rows returns early."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C"
DIVERGES = True
BY = 14
SAMPLES = [3, 0]


def job(rows):
    if rows == 0:
        return torch.zeros(1)
    x = torch.ones(1)
    dist.all_reduce(x)
    return x * 0
