"""Rank 0 alone saves a checkpoint, and saving is a call of all ranks."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C alan-turing-institute/autocast#386"
DIVERGES = True
BY = 20
SAMPLES = [1, 2]


def save_checkpoint(step):
    state = torch.ones(step)
    dist.all_reduce(state)
    return state


def job(step):
    if dist.get_rank() == 0:
        save_checkpoint(step)
    dist.barrier()
    return torch.ones(1)
