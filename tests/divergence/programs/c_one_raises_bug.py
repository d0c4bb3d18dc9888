"""A rank with a bad shard raises."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C"
DIVERGES = True
BY = 14
SAMPLES = [4, -1]


def job(rows):
    if rows < 0:
        raise ValueError("bad shard")
    x = torch.full((2,), float(rows))
    dist.all_reduce(x)
    return x
