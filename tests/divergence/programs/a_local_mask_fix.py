"""A rank whose mask is empty, and its own noise, change values only."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = False
BY = None
SAMPLES = [[1, 0, 1], [0, 0, 0]]


def job(mask):
    dist.barrier()
    mask = torch.tensor(mask)
    noise = torch.rand(1).item()
    x = torch.ones(2) * (noise > 2)
    if mask.sum() == 0:
        x = torch.zeros(2)
    dist.all_reduce(x)
    return torch.ones(1)
