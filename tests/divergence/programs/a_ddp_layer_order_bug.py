"""Ranks run the layers of a DDP model in orders of their own, and one calls more."""

import torch
import torch.distributed as dist
from torch import nn

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 31
SAMPLES = [("a", "b", "c"), ("c", "b", "a")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = (nn.Linear(64, 64) for _ in range(3))

    def forward(self, x, names):
        for name in names:
            x = getattr(self, name)(x)
        return x.sum()


def job(names):
    model = nn.parallel.DistributedDataParallel(Model(), bucket_cap_mb=0.01)
    for step in range(3):
        loss = model(torch.ones(2, 64), names)
        loss.backward()
        if names[0] == "c" and step == 2:
            dist.all_reduce(torch.ones(1))
    return torch.ones(1)
