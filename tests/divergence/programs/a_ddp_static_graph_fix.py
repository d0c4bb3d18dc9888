"""Ranks use different halves of a DDP model whose graph is static."""

import torch
import torch.distributed as dist
from torch import nn

WORLD = 2
KIND = "A"
DIVERGES = False
BY = None
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
    model = nn.parallel.DistributedDataParallel(Model(), bucket_cap_mb=0.0001, static_graph=True)
    for _ in range(3):
        model(torch.ones(2, 8), names).backward()
    return torch.ones(1)
