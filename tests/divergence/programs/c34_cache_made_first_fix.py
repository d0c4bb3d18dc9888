"""All join where any rank has none."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C hao-ai-lab/FastVideo#598"
DIVERGES = False
BY = None
SAMPLES = [None, "rows"]  # what this rank finds in the cache


def make(cache):
    rows = [None]
    dist.broadcast_object_list(rows, src=0)
    return rows[0] or cache


def job(cache):
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, cache is not None)
    rows = cache if all(found) else make(cache)
    out = torch.ones(2)
    dist.all_reduce(out)
    return out
