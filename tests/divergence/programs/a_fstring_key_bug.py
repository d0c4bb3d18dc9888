"""A scattered number becomes part of a key."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A"
DIVERGES = True
BY = 18
SAMPLES = [1, 2]


def job(kind):
    seen = torch.tensor(kind)
    dist.scatter(seen, [torch.tensor(1), torch.tensor(2)] if dist.get_rank() == 0 else None, src=0)
    steps = {"kind-1": 1, "kind-2": 1 + (kind == 2)}[f"kind-{seen}"]
    total = torch.zeros(1)
    for _ in range(steps):
        one = torch.ones(1)
        dist.all_reduce(one)
        total += one
    return total
