"""Gradients averaged by hand, parameter by parameter, and a ZeRO optimizer of torch's own."""

import torch
import torch.distributed as dist
from common import batches, net, slips
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import cross_entropy


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = net()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    for inputs, targets in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(inputs), targets).backward()
        order = list(model.parameters())
        if slips("another order of the parameters", rank):
            order.reverse()
        for parameter in order:
            dist.all_reduce(parameter.grad)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
