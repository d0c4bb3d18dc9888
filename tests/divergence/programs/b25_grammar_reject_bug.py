"""A rank whose grammar refuses the token aborts the request, and leaves the step."""

import json

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B sgl-project/sglang#28039"
DIVERGES = True
BY = 25
SAMPLES = ["{}", "{"]


def accept(text):
    json.loads(text)
    return torch.ones(2)


def job(text):
    try:
        logits = accept(text)
    except ValueError:
        logits = None
    if logits is not None:
        dist.all_reduce(logits)
    dist.barrier()
    return torch.ones(1)
