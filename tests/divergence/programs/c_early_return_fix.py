"""All return early if any has no rows."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C"
DIVERGES = False
BY = None
SAMPLES = [3, 0]


def job(rows):
    empty = [None] * dist.get_world_size()
    dist.all_gather_object(empty, rows == 0)
    if any(empty):
        return torch.zeros(1)
    x = torch.ones(1)
    dist.all_reduce(x)
    return x * 0
