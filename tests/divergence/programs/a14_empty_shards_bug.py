"""A batch smaller than the world leaves ranks with an empty shard, and these skip their calls."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A agentscope-ai/TuFT#121"
DIVERGES = True
BY = 15
SAMPLES = [4, 1, 2]


def job(rows):
    shard = torch.arange(rows)[dist.get_rank() :: dist.get_world_size()]
    if len(shard):
        mean = shard.float().mean()
        dist.all_reduce(mean)
    done = torch.ones(2)
    dist.all_reduce(done)
    return done
