"""The smallest number of free blocks decides."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B NVIDIA/TensorRT-LLM#14020"
DIVERGES = False
BY = None
SAMPLES = [0, 4, 9]


NEEDED = 3


def job(free):
    least = torch.tensor(free)
    dist.all_reduce(least, op=dist.ReduceOp.MIN)
    can_schedule = least.item() >= NEEDED
    if can_schedule:
        rows = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, torch.tensor([float(free)]))
    dist.barrier()
    return torch.ones(1)
