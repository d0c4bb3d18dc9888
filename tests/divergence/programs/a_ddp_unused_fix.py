"""DDP is told that parameters may be unused."""

import torch
import torch.distributed as dist
from torch import nn

WORLD = 2
KIND = "A"
DIVERGES = False
BY = None
SAMPLES = [("a",), ("a", "b")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, names):
        for name in names:
            x = getattr(self, name)(x)
        return x.sum()


def job(names):
    model = nn.parallel.DistributedDataParallel(Model(), find_unused_parameters=True)
    for _ in range(2):
        model(torch.ones(2, 4), names).backward()
    return model.module.a.weight.grad
