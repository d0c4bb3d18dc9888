"""A batch without an image sends zeros through the encoder."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A pytorch/torchtitan#4777"
DIVERGES = False
BY = None
SAMPLES = [{"text": 3, "pixels": None}, {"text": 2, "pixels": [1.0, 2.0]}]


def encoder(pixels):
    out = torch.tensor(pixels)
    dist.all_reduce(out)
    return out


def job(batch):
    hidden = torch.full((2,), float(batch["text"]))
    hidden = hidden + encoder(batch["pixels"] or [0.0, 0.0])
    dist.all_reduce(hidden)
    return hidden
