"""All towers, in one order."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A modelscope/ms-swift#10183"
DIVERGES = False
BY = None
SAMPLES = [("audio", "video"), ("video", "audio"), ("audio",)]


def job(kinds):
    sizes = {"audio": 64, "video": 4096}
    for kind in sorted(sizes):
        buffer = torch.zeros(sizes[kind])
        dist.broadcast(buffer, src=0)
    return torch.ones(1) * bool(kinds)
