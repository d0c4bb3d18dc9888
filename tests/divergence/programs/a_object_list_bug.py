"""A plan is broadcast by who has work."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C"
DIVERGES = True
BY = 15
SAMPLES = [[3, 1], [2], []]


def job(work):
    plan = [work if dist.get_rank() == 0 else None]
    if work:
        dist.broadcast_object_list(plan, src=0)
    total = torch.ones(1)
    dist.all_reduce(total)
    return total
