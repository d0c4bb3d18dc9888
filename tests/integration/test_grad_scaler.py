"""Gradient scalers: each rank decides by its own gradients whether it steps, unless all agree."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes
torch = pytest.importorskip("torch")

JOB = """
import os, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel


class Talking(torch.optim.SGD):
    def step(self, closure=None):
        for group in self.param_groups:
            for one in group["params"]:
                dist.all_reduce(one.to_local() if hasattr(one, "to_local") else one.data)
        return super().step(closure)


how, device = sys.argv[1:]
local = int(os.environ["LOCAL_RANK"])
if device == "cuda":
    torch.cuda.set_device(local % torch.cuda.device_count())
dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Linear(8, 2).to(device)
scaler = (ShardedGradScaler if how in ("sharded", "one rank") else torch.amp.GradScaler)(device)
if how == "ddp":
    model = DistributedDataParallel(model, device_ids=[local] if device == "cuda" else None)
if how == "fsdp2":
    fully_shard(model)
optimizer = Talking(model.parameters(), lr=0.1)
for _ in range(2):
    batch = torch.randn(4, 8, generator=torch.Generator().manual_seed(dist.get_rank())).to(device)
    scaler.scale(model(batch).sum()).backward()
    if how == "one rank":
        if dist.get_rank() == 0:
            scaler.unscale_(optimizer)
        break
    scaler.step(optimizer)
    scaler.update()
dist.barrier()
"""
TRUTH = {("ddp", "cuda"): "SAFE", ("sharded", "cuda"): "SAFE", ("own", "cuda"): "UNKNOWN",
         ("fsdp2", "cpu"): "SAFE", ("one rank", "cpu"): "MISMATCH"}  # fmt: skip


@pytest.mark.parametrize(("how", "device"), TRUTH)
def test_a_scaler_decides_for_its_rank_unless_what_it_finds_is_agreed_on(tmp_path, how, device):
    """The optimizer communicates, so that a rank which skips its step is missed. DDP reduces the
    gradients, FSDP2 and a ShardedGradScaler reduce ``found_inf``; a scaler of a rank's own
    gradients decides alone, also where the machine has no CUDA and the script names it.
    """
    (tmp_path / "job.py").write_text(JOB)
    done = subprocess.run(
        [sys.executable, "-m", "planguard", "dryrun", "--stub", "--model", "gloo", "-o", "run",
         "--", "torchrun", "--nproc-per-node", "2", "job.py", how, device],
        cwd=tmp_path, capture_output=True, text=True, timeout=160, check=False,
    )  # fmt: skip
    assert f"verdict: {TRUTH[how, device]}" in done.stdout, done.stdout + done.stderr
    if how == "own":
        assert "job.py:" in done.stdout + done.stderr
