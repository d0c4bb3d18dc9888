"""Ranks leave the loop of generation at their own end of sequence."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A deepspeedai/DeepSpeed#8262"
DIVERGES = True
BY = 23
SAMPLES = [[4, 0], [4, 5, 6, 0]]


def forward(token):
    weights = [torch.zeros(2) for _ in range(dist.get_world_size())]
    dist.all_gather(weights, torch.ones(2))
    return token * int(weights[0][0])


def job(script):
    tokens = []
    for token in script:
        tokens.append(forward(token))
        if tokens[-1] == 0:
            break
    else:
        tokens.append(0)
    dist.barrier()
    return torch.ones(1)
