"""A flag is reduced each turn, and ranks that are done go on with padding."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A deepspeedai/DeepSpeed#8262"
DIVERGES = False
BY = None
SAMPLES = [[4, 0], [4, 5, 6, 0]]


def forward(token):
    weights = [torch.zeros(2) for _ in range(dist.get_world_size())]
    dist.all_gather(weights, torch.ones(2))
    return token * int(weights[0][0])


def job(script):
    tokens = []
    while True:
        token = script[len(tokens)] if len(tokens) < len(script) else 0
        tokens.append(forward(token))
        going = torch.tensor(int(tokens[-1] != 0))
        dist.all_reduce(going, op=dist.ReduceOp.MAX)
        if not going.item():
            break
    dist.barrier()
    return torch.ones(1)
