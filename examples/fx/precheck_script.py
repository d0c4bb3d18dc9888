"""Check ordinary torch.distributed code on 8 ranks, without a device and without a job.

    python examples/fx/precheck_script.py

The loop has a classic bug: one rank skips a collective. Both forms of the precheck find it.
"""

import torch
import torch.distributed as dist

import planguard.capture
from planguard import UnsafePlanError


def train_step() -> None:
    dist.init_process_group("nccl")  # the precheck answers instead; no GPU is touched
    loss = torch.ones(1)
    dist.all_reduce(loss)
    if dist.get_rank() != 5:  # say, rank 5 found no batch to log
        dist.broadcast(loss, src=0)
    dist.barrier()


try:
    with planguard.capture.precheck(world_size=8):
        train_step()
except UnsafePlanError as error:
    finding = error.verdict.errors[0]
    print(f"{finding.code}: {finding.message}")
    print(f"at line {finding.primary.source.line} of {finding.primary.source.function}")

verdict = planguard.capture.precheck(world_size=8, on_unsafe="return").run(train_step)
print(verdict)  # the whole diagnostic
assert verdict.unsafe
