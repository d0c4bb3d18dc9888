"""All measure if any of them misses."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B NVIDIA/TensorRT-LLM#14240"
DIVERGES = False
BY = None
SAMPLES = [{}, {"mm": "fast"}]


def tune():
    cost = torch.tensor([1.0])
    dist.all_reduce(cost, op=dist.ReduceOp.MAX)
    return "fast" if cost.item() < 2 else "slow"


def job(cache):
    missing = torch.tensor(int("mm" not in cache))
    dist.all_reduce(missing, op=dist.ReduceOp.MAX)
    choice = tune() if missing.item() else cache["mm"]
    out = torch.ones(2)
    dist.all_reduce(out)
    return out
