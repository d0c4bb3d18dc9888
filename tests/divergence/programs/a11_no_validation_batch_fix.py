"""It reduces a zero and counts for nothing."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A Lightning-AI/litgpt#2319"
DIVERGES = False
BY = None
SAMPLES = [2, 0]


def validate(batches):
    losses = [torch.tensor(float(n)) for n in range(batches)]
    both = torch.tensor([sum(losses, torch.tensor(0.0)).item(), float(len(losses))])
    dist.all_reduce(both)
    return both[0] / both[1].clamp(min=1)


def job(batches):
    validate(batches)
    dist.barrier()
    return torch.ones(1)
