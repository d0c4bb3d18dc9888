"""A rank whose mask is empty skips the reduction."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 17
SAMPLES = [[1, 0, 1], [0, 0, 0]]


def job(mask):
    dist.barrier()
    mask = torch.tensor(mask)
    x = torch.ones(2)
    if mask.sum() == 0:
        x = torch.zeros(2)
    else:
        dist.all_reduce(x)
    dist.barrier()
    return torch.ones(1)
