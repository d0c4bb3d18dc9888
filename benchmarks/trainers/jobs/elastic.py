"""torchrun with restarts: the first attempt of rank 1 fails, the second goes on."""

import os
import sys

import torch
import torch.distributed as dist
from common import batches, folder, net, slips
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    file = folder("elastic") / "model.pt"
    if again and not slips("one rank does not load", rank):
        told = [file.exists()]
        dist.broadcast_object_list(told, src=0)
    for step, (inputs, targets) in enumerate(batches(rank)):
        optimizer.zero_grad()
        cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        if step == 1 and rank == 0:
            torch.save(model.module.state_dict(), file)
        if step == 2 and rank == 1 and not again and os.environ.get("TRAINERS_FAILS") == "1":
            sys.exit(1)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
