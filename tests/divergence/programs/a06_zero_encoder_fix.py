"""The weights are fetched whether or not the sample has an image."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A modelscope/ms-swift#9639"
DIVERGES = False
BY = None
SAMPLES = [{"ids": [1, 2]}, {"ids": [1], "image": 4}]


def fetch(owner):
    weights = torch.full((4,), 1.0 if dist.get_rank() == owner else 0.0)
    dist.broadcast(weights, src=owner)
    return weights


def job(sample):
    total = fetch(0).sum()
    encoder = fetch(1).sum()
    if "image" in sample:
        total = total + encoder
    done = torch.ones(1)
    dist.all_reduce(done)
    return done
