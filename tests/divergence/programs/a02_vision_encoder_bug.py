"""The encoder reduces its output, and runs only where a batch has an image."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A pytorch/torchtitan#4777"
DIVERGES = True
BY = 21
SAMPLES = [{"text": 3, "pixels": None}, {"text": 2, "pixels": [1.0, 2.0]}]


def encoder(pixels):
    out = torch.tensor(pixels)
    dist.all_reduce(out)
    return out


def job(batch):
    hidden = torch.full((2,), float(batch["text"]))
    if batch["pixels"] is not None:
        hidden = hidden + encoder(batch["pixels"])
    dist.all_reduce(hidden)
    return hidden
