"""A loader with a worker process of its own decides how often ranks meet."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 16
SAMPLES = [2, 4]


def job(rows):
    data = torch.utils.data.TensorDataset(torch.arange(rows, dtype=torch.float32))
    total = torch.zeros(1)
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=2, num_workers=1):
        loss = batch.sum().reshape(1)
        dist.all_reduce(loss)
        total += loss
    return total
