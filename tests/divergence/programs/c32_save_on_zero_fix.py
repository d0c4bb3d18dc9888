"""All ranks save, and rank 0 writes."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C alan-turing-institute/autocast#386"
DIVERGES = False
BY = None
SAMPLES = [1, 2]


def save_checkpoint(rows):
    state = torch.ones(2) * rows
    dist.all_reduce(state)
    return state


def job(step):
    state = save_checkpoint(step)
    if dist.get_rank() == 0:
        assert state.numel() == 2
    dist.barrier()
    return torch.ones(1)
