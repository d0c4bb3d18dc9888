"""Ranks that miss the cache of the tuner measure together; a rank that hits it does not come."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B NVIDIA/TensorRT-LLM#14240"
DIVERGES = True
BY = 21
SAMPLES = [{}, {"mm": "fast"}]


def tune():
    cost = torch.tensor([1.0])
    dist.all_reduce(cost, op=dist.ReduceOp.MAX)
    return "fast" if cost.item() < 2 else "slow"


def job(cache):
    choice = cache.get("mm")
    if choice is None:
        choice = tune()
    out = torch.ones(2)
    dist.all_reduce(out)
    return out
