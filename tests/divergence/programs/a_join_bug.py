"""DDP with as many steps as a rank has batches."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 18
SAMPLES = [2, 5]


def job(steps):
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    for _ in range(steps):
        model(torch.ones(2, 4)).sum().backward()
    return torch.ones(1)
