"""A plan of rank 0 is broadcast, and all follow it."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C"
DIVERGES = False
BY = None
SAMPLES = [[3, 1], [2], []]


def job(work):
    plan = [work if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(plan, src=0)
    total = torch.ones(1)
    for size in plan[0]:
        dist.all_reduce(torch.ones(size))
    dist.all_reduce(total)
    return total
