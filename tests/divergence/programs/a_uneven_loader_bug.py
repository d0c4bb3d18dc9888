"""Each rank runs its own loader to its end."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 16
SAMPLES = [4, 7, 6]


def job(rows):
    data = torch.utils.data.TensorDataset(torch.arange(rows, dtype=torch.float32))
    total = torch.zeros(1)
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=2):
        loss = batch.sum().reshape(1)
        dist.all_reduce(loss)
        total += loss
    return total
