"""The number of micro-batches is the largest of all ranks; the rest are empty."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A verl-project/verl#6176"
DIVERGES = False
BY = None
SAMPLES = [[5, 3, 2], [8, 7, 6], [9, 9, 9, 9]]


def gather(weights):
    full = torch.empty(weights.numel() * dist.get_world_size())
    dist.all_gather_into_tensor(full, weights)
    return full


def micro_batches(lengths):
    packed = [0]
    for length in lengths:
        if packed[-1] + length > 10:
            packed.append(0)
        packed[-1] += length
    most = torch.tensor(len(packed))
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return packed + [0] * (most.item() - len(packed))


def job(lengths):
    loss = torch.zeros(1)
    for tokens in micro_batches(lengths):
        loss += gather(torch.ones(2)).sum() * tokens
    dist.all_reduce(loss)
    return loss
