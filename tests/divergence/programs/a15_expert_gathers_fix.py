"""All experts are gathered in turn, whatever the router says."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A AgileRL/AgileRL#658"
DIVERGES = False
BY = None
SAMPLES = [[0, 1], [0, 0], [1, 2]]


def job(routed):
    for _ in range(3):
        full = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(full, torch.tensor([1.0]))
    dist.barrier()
    return torch.ones(1) * bool(routed)
