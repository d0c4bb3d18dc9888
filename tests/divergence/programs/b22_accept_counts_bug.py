"""Each rank verifies the draft by its own argmax, and goes on with what it accepted."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B sgl-project/sglang#28815"
DIVERGES = True
BY = 24
SAMPLES = [[7, 8, 9], [7, 8, 1], [7, 2, 9]]


def accepted(tokens):
    count = 0
    for token, drafted in zip(tokens, (7, 8, 9)):
        if token != drafted:
            break
        count += 1
    return count


def job(tokens):
    kept = accepted(tokens)
    states = torch.ones(kept, 2)
    dist.all_reduce(states)
    return torch.ones(1)
