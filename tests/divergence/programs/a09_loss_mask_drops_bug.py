"""Samples whose loss mask is empty are dropped, and their gather with them."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A lightseekorg/TorchSpec#126"
DIVERGES = True
BY = 16
SAMPLES = [[1, 1, 1], [1, 0, 1], [0, 0, 1]]


def job(masks):
    total = torch.zeros(1)
    for mask in masks:
        if not mask:
            continue
        parts = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, torch.ones(1))
        total += sum(parts)
    dist.barrier()
    return torch.ones(1)
