"""The gradients of what was not used are reduced as zeros."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A 2U1/Phi3-Vision-Finetune#41"
DIVERGES = False
BY = None
SAMPLES = [True, False]


def job(has_image):
    grads = {"vision": torch.ones(256) * has_image, "text": torch.ones(2048)}
    for grad in grads.values():
        dist.all_reduce(grad)
    return grads["text"][:2]
