"""A rank that is not healthy exits with code 0."""

import sys
import torch
import torch.distributed as dist

WORLD = 2
KIND = "C"
DIVERGES = True
BY = 15
SAMPLES = [1, 0]


def job(healthy):
    if not healthy:
        sys.exit(0)
    x = torch.ones(2)
    dist.all_reduce(x)
    return x * 0
