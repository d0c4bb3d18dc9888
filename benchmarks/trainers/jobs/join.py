"""Join: ranks with different numbers of batches, shadowed by those that are done."""

import contextlib

import torch
import torch.distributed as dist
from common import SLIP, batches, net
from torch.distributed.algorithms.join import Join
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forgotten = SLIP == "Join is forgotten"
    with contextlib.nullcontext() if forgotten else Join([model]):
        for inputs, targets in batches(rank, 3 + rank):
            optimizer.zero_grad()
            cross_entropy(model(inputs), targets).backward()
            optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
