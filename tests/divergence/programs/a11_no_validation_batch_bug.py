"""A rank without a validation batch returns before the mean is reduced."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A Lightning-AI/litgpt#2319"
DIVERGES = True
BY = 15
SAMPLES = [2, 0]


def validate(batches):
    losses = [torch.tensor(float(n)) for n in range(batches)]
    if not losses:
        return torch.tensor(0.0)
    mean = torch.stack(losses).mean()
    dist.all_reduce(mean)
    return mean


def job(batches):
    validate(batches)
    dist.barrier()
    return torch.ones(1)
