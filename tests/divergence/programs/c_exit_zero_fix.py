"""Ranks gather who is healthy, and reduce if all are."""

import sys
import torch
import torch.distributed as dist

WORLD = 2
KIND = "C"
DIVERGES = False
BY = None
SAMPLES = [1, 0]


def job(healthy):
    flags = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(flags, torch.tensor([float(healthy)]))
    x = torch.ones(2)
    if all(flags):
        dist.all_reduce(x)
    dist.barrier()
    return x * 0
