"""Objects of different lengths are gathered, and all ranks look at all."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = False
BY = None
SAMPLES = [{"images": 2}, {"images": 0}, {}]


def job(batch):
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, batch)
    x = torch.ones(3)
    if any(one.get("images") for one in found):
        dist.all_reduce(x)
    dist.barrier()
    return torch.ones(1)
