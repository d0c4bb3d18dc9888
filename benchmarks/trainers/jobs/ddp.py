"""Plain torch under torchrun: DDP, validation, a best loss that ranks agree on."""

import torch
import torch.distributed as dist
from common import batches, net, slips
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = float("inf")
    data = batches(rank, 3 if slips("one batch fewer", rank) else 4)
    for epoch in range(2):
        for inputs, targets in data:
            optimizer.zero_grad()
            cross_entropy(model(inputs), targets).backward()
            optimizer.step()
        with torch.no_grad():
            loss = cross_entropy(model.module(inputs), targets)
        dist.all_reduce(loss)
        if loss.item() < best:  # the same on every rank
            best = loss.item()
            if not slips("save on rank 0 only", rank):
                dist.barrier()  # rank 0 has saved
        elif epoch:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
