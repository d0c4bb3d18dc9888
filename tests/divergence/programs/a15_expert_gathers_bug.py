"""The weights of an expert are gathered again when a token asks for another one than before."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A AgileRL/AgileRL#658"
DIVERGES = True
BY = 16
SAMPLES = [[0, 1], [0, 0], [1, 2]]


def job(routed):
    held = None
    for expert in routed:
        if expert != held:
            full = [torch.zeros(1) for _ in range(dist.get_world_size())]
            dist.all_gather(full, torch.tensor([1.0]))
            held = expert
    dist.barrier()
    return torch.ones(1)
