"""What reduce_scatter brings is the size of the next tensor."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 17
SAMPLES = [[1, 4], [2, 2]]


def job(parts):
    mine = torch.zeros(1, dtype=torch.int64)
    dist.reduce_scatter_tensor(mine, torch.tensor(parts))
    size = torch.Size(mine.tolist())
    x = torch.ones(size)
    dist.all_reduce(x)
    return torch.ones(1)
