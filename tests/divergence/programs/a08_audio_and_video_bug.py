"""Buffers are broadcast in the order in which the sample touched their towers: 64 meets 4096."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A modelscope/ms-swift#10183"
DIVERGES = True
BY = 15
SAMPLES = [("audio", "video"), ("video", "audio"), ("audio",)]


def job(kinds):
    sizes = {"audio": 64, "video": 4096}
    for kind in kinds:
        buffer = torch.zeros(sizes[kind])
        dist.broadcast(buffer, src=0)
    return torch.ones(1)
