"""Whether any rank refuses is agreed on before the step goes on."""

import json

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B sgl-project/sglang#28039"
DIVERGES = False
BY = None
SAMPLES = ["{}", "{"]


def accept(text):
    json.loads(text)
    return torch.ones(2)


def job(text):
    try:
        logits = accept(text)
    except ValueError:
        logits = torch.zeros(2)
    dist.all_reduce(logits)
    dist.barrier()
    return torch.ones(1)
