"""Each rank decides by its own acceptance rate whether the drafter runs."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B vllm-project/vllm#49027"
DIVERGES = True
BY = 15
SAMPLES = [0.2, 0.8]


def job(accepted):
    use_drafter = accepted > 0.5
    if use_drafter:
        draft = torch.ones(3)
        dist.all_reduce(draft)
    target = torch.ones(3)
    dist.all_reduce(target)
    return target
