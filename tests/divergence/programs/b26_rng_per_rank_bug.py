"""Each rank samples with a seed of its own, and generation ends with its own last token."""

import random

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B NVIDIA/TensorRT-LLM#12024"
DIVERGES = True
BY = 17
SAMPLES = [1, 2, 3]


def job(seed):
    chance = random.Random(seed)
    while chance.random() < 0.6:
        step = torch.ones(2)
        dist.all_reduce(step)
    dist.barrier()
    return torch.ones(1)
