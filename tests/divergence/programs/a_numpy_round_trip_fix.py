"""A gathered table goes through numpy and back, and all take its maximum."""

import numpy as np
import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = False
BY = None
SAMPLES = [[3, 1], [2, 2]]


def job(sizes):
    table = torch.zeros(dist.get_world_size(), 2, dtype=torch.int64)
    dist.all_gather_into_tensor(table, torch.tensor([sizes]))
    again = torch.from_numpy(table.numpy().copy())
    total = torch.zeros(1)
    for _ in range(again.numpy().max()):
        one = torch.ones(1)
        dist.all_reduce(one)
        total += one
    return total
