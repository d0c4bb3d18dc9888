"""Ranks that got frames synchronize them; others go on."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A PrimeIntellect-ai/prime-rl#1959"
DIVERGES = True
BY = 15
SAMPLES = [[], ["frame"], ["frame", "frame"]]


def job(frames):
    pooled = torch.tensor([float(len(frames))])
    while frames:
        dist.all_reduce(pooled)
        frames = frames[1:]
    loss = torch.ones(1)
    dist.all_reduce(loss)
    return loss
