"""The largest count is reduced to rank 0, which broadcasts it."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = False
BY = None
SAMPLES = [2, 5, 3]


def job(length):
    steps = torch.tensor(length)
    dist.reduce(steps, dst=0, op=dist.ReduceOp.MAX)
    dist.broadcast(steps, src=0)
    total = torch.zeros(1)
    for _ in range(steps.item()):
        one = torch.ones(1)
        dist.all_reduce(one)
        total += one
    return total
