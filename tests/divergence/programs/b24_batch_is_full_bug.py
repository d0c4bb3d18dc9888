"""How often the prefetch is checked depends on whether this rank's batch is full."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "B sgl-project/sglang#30760"
DIVERGES = True
BY = 28
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
        if scheduler.batch_is_full:
            break
        scheduler.check_prefetch()
    dist.barrier()
    return torch.ones(1)
