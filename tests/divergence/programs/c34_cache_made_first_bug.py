"""A rank that finds the cache already there does not join in making it."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C hao-ai-lab/FastVideo#598"
DIVERGES = True
BY = 20
SAMPLES = [None, "rows"]  # what this rank finds in the cache


def make(cache):
    rows = [None]
    dist.broadcast_object_list(rows, src=0)
    return rows[0] or cache


def job(cache):
    rows = cache if cache else make(cache)
    out = torch.ones(2)
    dist.all_reduce(out)
    return out
