"""The tower runs for every micro-batch, on a dummy where there is no image."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A radixark/miles#2406"
DIVERGES = False
BY = None
SAMPLES = [["text", "image"], ["image", "image"], ["text", "text"]]


def tower(kind):
    features = torch.full((3,), float(len(kind)))
    dist.all_reduce(features)
    return features


def step(kind):
    weight = 1.0 if kind == "image" else 0.0
    return tower(kind).sum() * weight


def job(kinds):
    loss = torch.zeros(())
    for kind in kinds:
        loss = loss + step(kind)
    grads = torch.ones(3)
    dist.all_reduce(grads)
    return grads
