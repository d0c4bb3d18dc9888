"""A scheduler without tokens skips the step and its collective."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B vllm-project/vllm#43547"
DIVERGES = True
BY = 21
SAMPLES = [[3, 0, 2], [1, 1, 1], [0, 0, 0]]


def execute(tokens):
    sizes = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([float(tokens)]))
    return int(sum(sizes))


def job(schedule):
    for tokens in schedule:
        if tokens == 0:
            continue
        execute(tokens)
    dist.barrier()
    return torch.ones(1)
