"""A rank without an image stands in the gradients of the next layer: 256 elements meet 2048."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A 2U1/Phi3-Vision-Finetune#41"
DIVERGES = True
BY = 17
SAMPLES = [True, False]


def job(has_image):
    grads = {"vision": torch.ones(256), "text": torch.ones(2048)}
    if not has_image:
        del grads["vision"]
    for grad in grads.values():
        dist.all_reduce(grad)
    return grads["text"][:2]
