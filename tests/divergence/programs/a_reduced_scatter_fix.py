"""The sizes that reduce_scatter brings are raised to their maximum."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = False
BY = None
SAMPLES = [[1, 4], [2, 2]]


def job(parts):
    mine = torch.zeros(1, dtype=torch.int64)
    dist.reduce_scatter_tensor(mine, torch.tensor(parts))
    dist.all_reduce(mine, op=dist.ReduceOp.MAX)
    x = torch.ones(torch.Size(mine.tolist()))
    dist.all_reduce(x)
    return torch.ones(1)
