"""Under ZeRO the weights of the encoder are broadcast by their owner, for samples with an image."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A modelscope/ms-swift#9639"
DIVERGES = True
BY = 21
SAMPLES = [{"ids": [1, 2]}, {"ids": [1], "image": 4}]


def fetch(owner):
    weights = torch.full((4,), 1.0 if dist.get_rank() == owner else 0.0)
    dist.broadcast(weights, src=owner)
    return weights


def job(sample):
    total = fetch(0).sum()
    if "image" in sample:
        total = total + fetch(1).sum()
    done = torch.ones(1)
    dist.all_reduce(done)
    return done
