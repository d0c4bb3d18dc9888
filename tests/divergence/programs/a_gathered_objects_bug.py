"""Objects of different lengths are gathered, and then each rank looks at its own."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 18
SAMPLES = [{"images": 2}, {"images": 0}, {}]


def job(batch):
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, batch)
    mine = found[dist.get_rank()]
    x = torch.ones(3)
    if mine.get("images"):
        dist.all_reduce(x)
    dist.barrier()
    return torch.ones(1)
