"""The seed of rank 0 is the seed of all."""

import random

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B NVIDIA/TensorRT-LLM#12024"
DIVERGES = False
BY = None
SAMPLES = [1, 2, 3]


def job(seed):
    shared = torch.tensor(seed)
    dist.broadcast(shared, src=0)
    chance = random.Random(shared.item())
    while chance.random() < 0.6:
        step = torch.ones(2)
        dist.all_reduce(step)
    dist.barrier()
    return torch.ones(1)
