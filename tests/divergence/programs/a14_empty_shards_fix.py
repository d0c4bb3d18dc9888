"""An empty shard reduces a zero."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A agentscope-ai/TuFT#121"
DIVERGES = False
BY = None
SAMPLES = [4, 1, 2]


def job(rows):
    shard = torch.arange(rows)[dist.get_rank() :: dist.get_world_size()]
    mean = shard.float().mean() if len(shard) else torch.zeros(())
    dist.all_reduce(mean)
    done = torch.ones(2)
    dist.all_reduce(done)
    return done
