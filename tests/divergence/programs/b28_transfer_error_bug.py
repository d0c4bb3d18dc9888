"""A rank whose transfer failed reports by gather, where the others all-gather their states."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B NVIDIA/TensorRT-LLM#13902"
DIVERGES = True
BY = 14
SAMPLES = [None, "timeout"]


def job(error):
    if error:
        said = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
        dist.gather_object(error, said, dst=0)
    else:
        states = [None] * dist.get_world_size()
        dist.all_gather_object(states, "ok")
    dist.barrier()
    return torch.ones(1)
