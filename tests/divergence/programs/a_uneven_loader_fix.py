"""All stop after the shortest loader."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = False
BY = None
SAMPLES = [4, 7, 6]


def job(rows):
    data = torch.utils.data.TensorDataset(torch.arange(rows, dtype=torch.float32))
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    least = torch.tensor([len(loader)])
    dist.all_reduce(least, op=dist.ReduceOp.MIN)
    total = torch.zeros(1)
    for number, (batch,) in enumerate(loader):
        if number >= least:
            break
        loss = batch.sum().reshape(1)
        dist.all_reduce(loss)
        total += loss
    return total
