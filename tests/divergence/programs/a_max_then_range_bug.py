"""The largest count is reduced to rank 0 only, and all loop."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 17
SAMPLES = [2, 5, 3]


def job(length):
    steps = torch.tensor(length)
    dist.reduce(steps, dst=0, op=dist.ReduceOp.MAX)
    total = torch.zeros(1)
    for _ in range(steps.item()):
        one = torch.ones(1)
        dist.all_reduce(one)
        total += one
    return total
