"""The loader's worker feeds a loop that meets once."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = False
BY = None
SAMPLES = [2, 4]


def job(rows):
    data = torch.utils.data.TensorDataset(torch.arange(rows, dtype=torch.float32))
    total = torch.zeros(1)
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=2, num_workers=1):
        total += batch.sum()
    dist.all_reduce(total)
    return total
