"""A gathered table goes through numpy, and each rank takes its row."""

import numpy as np
import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 19
SAMPLES = [[3, 1], [2, 2]]


def job(sizes):
    table = torch.zeros(dist.get_world_size(), 2, dtype=torch.int64)
    dist.all_gather_into_tensor(table, torch.tensor([sizes]))
    column = np.asarray(table)[dist.get_rank()]
    total = torch.zeros(1)
    for _ in range(column.max()):
        one = torch.ones(1)
        dist.all_reduce(one)
        total += one
    return total
