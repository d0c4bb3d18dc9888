"""The count of rank 0 is broadcast."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B sgl-project/sglang#28815"
DIVERGES = False
BY = None
SAMPLES = [[7, 8, 9], [7, 8, 1], [7, 2, 9]]


def accepted(tokens):
    count = 0
    for token, drafted in zip(tokens, (7, 8, 9)):
        if token != drafted:
            break
        count += 1
    return count


def job(tokens):
    kept = torch.tensor(accepted(tokens))
    dist.broadcast(kept, src=0)
    states = torch.ones(kept.item(), 2)
    dist.all_reduce(states)
    return torch.ones(1)
