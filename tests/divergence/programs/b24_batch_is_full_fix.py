"""The prefetch is checked for every request, full or not."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B sgl-project/sglang#30760"
DIVERGES = False
BY = None
SAMPLES = [0, 2, 3]


class Scheduler:
    def __init__(self, free):
        self.free = free
        self.batch_is_full = free == 0

    def check_prefetch(self):
        done = torch.ones(1)
        dist.all_reduce(done, op=dist.ReduceOp.MIN)
        self.free -= 1
        self.batch_is_full = self.free <= 0


def job(free):
    scheduler = Scheduler(free)
    for _ in range(3):
        scheduler.check_prefetch()
    dist.barrier()
    return torch.ones(1)
