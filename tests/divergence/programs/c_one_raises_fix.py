"""Ranks agree that a shard is bad, and all leave."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C"
DIVERGES = False
BY = None
SAMPLES = [4, -1]


def job(rows):
    bad = torch.tensor([rows < 0], dtype=torch.uint8)
    dist.all_reduce(bad, op=dist.ReduceOp.MAX)
    if bad.item():
        return torch.zeros(2)
    x = torch.full((2,), float(rows))
    dist.all_reduce(x)
    return x
