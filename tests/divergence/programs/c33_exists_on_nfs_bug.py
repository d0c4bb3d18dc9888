"""Ranks that see the checkpoint receive its step by broadcast."""

import pathlib
import tempfile

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C KempnerInstitute/KempnerForge#49"
DIVERGES = True
BY = 21
SAMPLES = [True, False]  # does this node see the file yet


def job(visible):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "last.pt"
        if visible:
            path.touch()
        if path.exists():
            step = torch.tensor([7])
            dist.broadcast(step, src=0)
    dist.barrier()
    return torch.ones(1)
