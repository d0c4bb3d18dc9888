"""A loop in plain torch; with --bug, rank 0 alone evaluates when it is time to.

planguard precheck plain_torch.py --ranks 2 -- --bug
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def evaluate(model, loader):
    """Return the mean loss over the ranks."""
    total = torch.zeros(1)
    with torch.no_grad():
        for rows, wanted in loader:
            total += (model(rows) - wanted).square().mean()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def main():
    """Train for an epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bug", action="store_true")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    is_first = int(os.environ["RANK"]) == 0
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    train = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    held = DataLoader(data, batch_size=32)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (rows, wanted) in enumerate(train):
        loss = (model(rows) - wanted).square().mean()
        if step % 2 == 0:  # gradients are summed up over two steps
            with model.no_sync():
                loss.backward()
        else:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if step == 3 and (is_first or not args.bug):
            print("loss", evaluate(model.module, held))
    dist.barrier()


if __name__ == "__main__":
    main()
