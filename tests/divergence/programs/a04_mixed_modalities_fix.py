"""All ranks synchronize as often as the one with most frames."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A PrimeIntellect-ai/prime-rl#1959"
DIVERGES = False
BY = None
SAMPLES = [[], ["frame"], ["frame", "frame"]]


def job(frames):
    pooled = torch.tensor([float(len(frames))])
    most = torch.tensor(len(frames))
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    for _ in range(most.item()):
        dist.all_reduce(pooled)
    loss = torch.ones(1)
    dist.all_reduce(loss)
    return loss
