"""An all-gather is gated by the blocks that are free on this rank."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B NVIDIA/TensorRT-LLM#14020"
DIVERGES = True
BY = 18
SAMPLES = [0, 4, 9]


NEEDED = 3


def job(free):
    can_schedule = free >= NEEDED
    if can_schedule:
        rows = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, torch.tensor([float(free)]))
    dist.barrier()
    return torch.ones(1)
