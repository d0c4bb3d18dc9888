"""Counts are gathered, and each rank loops over its own entry."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 17
SAMPLES = [1, 3, 2]


def job(count):
    counts = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, torch.tensor([count]))
    total = torch.zeros(1)
    for _ in range(int(counts[dist.get_rank()])):
        one = torch.ones(1)
        dist.all_reduce(one)
        total += one
    return total
