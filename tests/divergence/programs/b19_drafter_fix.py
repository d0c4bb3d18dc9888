"""The rate of rank 0 decides for all."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B vllm-project/vllm#49027"
DIVERGES = False
BY = None
SAMPLES = [0.2, 0.8]


def job(accepted):
    rate = torch.tensor([accepted])
    dist.broadcast(rate, src=0)
    use_drafter = rate.item() > 0.5
    if use_drafter:
        draft = torch.ones(3)
        dist.all_reduce(draft)
    target = torch.ones(3)
    dist.all_reduce(target)
    return target
