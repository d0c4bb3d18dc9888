"""Two exchanged numbers go through struct and array, and their sum counts."""

import array
import struct
import torch
import torch.distributed as dist

WORLD = 2
KIND = "E"
DIVERGES = False
BY = None
SAMPLES = [1, 3]


def job(count):
    box = torch.tensor([count])
    other = torch.zeros_like(box)
    rank = dist.get_rank()
    ops = [dist.P2POp(dist.isend, box, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    data = struct.pack("ii", count, other.item())
    total = torch.zeros(1)
    for _ in bytes(sum(array.array("i", data))):
        one = torch.ones(1)
        dist.all_reduce(one)
        total += one
    return total
