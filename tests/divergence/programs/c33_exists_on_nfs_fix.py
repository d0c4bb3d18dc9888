"""Rank 0 looks for all."""

import pathlib
import tempfile

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C KempnerInstitute/KempnerForge#49"
DIVERGES = False
BY = None
SAMPLES = [True, False]  # does this node see the file yet


def job(visible):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "last.pt"
        if visible:
            path.touch()
        found = [path.exists()]
    dist.broadcast_object_list(found, src=0)
    if found[0]:
        step = torch.tensor([7])
        dist.broadcast(step, src=0)
    dist.barrier()
    return torch.ones(1)
