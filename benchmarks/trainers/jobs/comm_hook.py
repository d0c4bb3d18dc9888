"""DDP with communication hooks: compression to fp16, then PowerSGD on a second model."""

import torch
import torch.distributed as dist
from common import batches, net, slips
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def train(model, rank, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in batches(rank, steps):
        optimizer.zero_grad()
        cross_entropy(model(inputs), targets).backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    first = DistributedDataParallel(net())
    first.register_comm_hook(None, default_hooks.fp16_compress_hook)
    train(first, rank, 3)
    second = DistributedDataParallel(net())
    start = 3 if slips("another start of compression", rank) else 2
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=start, min_compression_rate=0.5)
    second.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(second, rank, 4)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
