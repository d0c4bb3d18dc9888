"""Each turn the ranks agree whether all of them have a row."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A PrimeIntellect-ai/prime-rl#2515"
DIVERGES = False
BY = None
SAMPLES = [3, 5, 4]


def stream(rows):
    for row in range(rows):
        yield torch.tensor([float(row)])


def job(rows):
    total = torch.zeros(1)
    source = stream(rows)
    while True:
        loss = next(source, None)
        more = torch.tensor([int(loss is not None)])
        dist.all_reduce(more, op=dist.ReduceOp.MIN)
        if not more.item():
            return total
        dist.all_reduce(loss)
        total += loss
