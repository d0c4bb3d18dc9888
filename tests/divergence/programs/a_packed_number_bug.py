"""A received number goes through struct, array and bytes."""

import array
import struct
import torch
import torch.distributed as dist

WORLD = 2
KIND = "E"
DIVERGES = True
BY = 25
SAMPLES = [1, 3]


def job(count):
    box = torch.tensor([count])
    other = torch.zeros_like(box)
    rank = dist.get_rank()
    ops = [dist.P2POp(dist.isend, box, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    data = struct.pack("i", other.item())
    (steps,) = array.array("i", data)
    total = torch.zeros(1)
    for _ in bytes(steps):
        one = torch.ones(1)
        dist.all_reduce(one)
        total += one
    return total
