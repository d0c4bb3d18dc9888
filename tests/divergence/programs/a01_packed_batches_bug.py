"""Each rank packs its sequences by a token budget, and every micro-batch gathers the weights."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A verl-project/verl#6176"
DIVERGES = True
BY = 30
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
    return packed


def job(lengths):
    loss = torch.zeros(1)
    for tokens in micro_batches(lengths):
        loss += gather(torch.ones(2)).sum() * tokens
    dist.all_reduce(loss)
    return loss
