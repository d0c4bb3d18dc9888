"""Validation runs to the end of each rank's own stream."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A PrimeIntellect-ai/prime-rl#2515"
DIVERGES = True
BY = 20
SAMPLES = [3, 5, 4]


def stream(rows):
    for row in range(rows):
        yield torch.tensor([float(row)])


def job(rows):
    total = torch.zeros(1)
    for loss in stream(rows):
        dist.all_reduce(loss)
        total += loss
    return total
