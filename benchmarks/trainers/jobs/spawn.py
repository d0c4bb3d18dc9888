"""torch's own tutorial: mp.spawn, and init_process_group with a rank and a world size."""

import os

import torch.distributed as dist
import torch.multiprocessing as mp
from common import batches, net, slips
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD


def worker(rank, world):
    dist.init_process_group("gloo", rank=rank, world_size=world)
    model = DistributedDataParallel(net())
    optimizer = SGD(model.parameters(), lr=0.1)
    for inputs, targets in batches(rank):
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if slips("a log of one rank reduces", rank):
            dist.all_reduce(loss.detach())
    dist.destroy_process_group()


def main():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29541")
    mp.spawn(worker, args=(2,), nprocs=2)


if __name__ == "__main__":
    main()
