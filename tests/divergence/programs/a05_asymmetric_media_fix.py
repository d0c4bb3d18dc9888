"""Every rank walks through the tower, and one without media drops what comes out."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A NVIDIA-NeMo/Automodel#2763"
DIVERGES = False
BY = None
SAMPLES = [0, 2]


class Tower:
    def __init__(self, layers):
        self.layers = [torch.ones(2) * n for n in range(layers)]

    def __call__(self, media):
        out = torch.ones(2) * media
        for shard in self.layers:
            full = [torch.empty(2) for _ in range(dist.get_world_size())]
            dist.all_gather(full, shard)
            out = out + full[0]
        return out


def job(media):
    tower = Tower(2)
    hidden = torch.zeros(2)
    seen = tower(media)
    if media:
        hidden = hidden + seen
    dist.barrier()
    return torch.ones(1)
