"""Dynamic batches as verl trains; with --bug, each rank has as many micro batches as it needs.

planguard precheck like_verl.py --ranks 2 --samples 2 -- --bug
"""

import argparse

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader

TOKENS = 8


def micro_batches(lengths, agree):
    """Return how many micro batches of at most TOKENS tokens a batch is cut into."""
    parts = torch.tensor(-(-sum(lengths) // TOKENS))
    if agree:
        dist.all_reduce(parts, dist.ReduceOp.MAX)
    return int(parts)


def main():
    """Train on batches of sequences of many lengths."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bug", action="store_true")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    model = fully_shard(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sequences = [3, 4, 9, 12, 2, 1]
    for lengths in DataLoader(sequences, batch_size=2, collate_fn=list):
        for _ in range(micro_batches(lengths, not args.bug)):
            model(torch.ones(TOKENS, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
