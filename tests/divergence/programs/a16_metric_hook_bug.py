"""A hook at the end of an epoch computes its metric where the rank has samples."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "A NVIDIA-TAO/tao-pytorch#74"
DIVERGES = True
BY = 24
SAMPLES = [{"iou": [0.5]}, {"iou": []}]


class Metric:
    def __init__(self, values):
        self.values = values

    def compute(self):
        total = torch.tensor([sum(self.values), float(len(self.values))])
        dist.all_reduce(total)
        return total


def on_epoch_end(metric):
    return metric.compute() if metric.values else None


def job(epoch):
    on_epoch_end(Metric(epoch["iou"]))
    dist.barrier()
    return torch.ones(1)
