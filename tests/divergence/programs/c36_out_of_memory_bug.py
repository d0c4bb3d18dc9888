"""A rank that is out of memory catches it, and goes on with the next batch."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C pytorch/pytorch#163546"
DIVERGES = True
BY = 26
SAMPLES = [[2, 2], [2, 500]]


class Model:
    def forward(self, rows):
        if rows > 100:
            raise MemoryError(f"{rows} rows")
        return torch.ones(2) * rows


def job(batches):
    model = Model()
    skipped = 0
    for rows in batches:
        try:
            loss = model.forward(rows)
        except MemoryError:
            skipped += 1
            continue
        dist.all_reduce(loss)
    dist.barrier()
    return torch.ones(1)
