"""Ranks use different halves of a DDP model that expects all of it."""

import torch
import torch.distributed as dist
from torch import nn

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 29
SAMPLES = [("a", "c"), ("b", "c")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x, names):
        for name in names:
            x = getattr(self, name)(x)
        return x.sum()


def job(names):
    model = nn.parallel.DistributedDataParallel(Model(), bucket_cap_mb=0.0001)
    for _ in range(3):
        model(torch.ones(2, 8), names).backward()
    return torch.ones(1)
