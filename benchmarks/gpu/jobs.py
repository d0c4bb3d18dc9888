"""Jobs that the phases run: one rank of a small job, on one GPU or, as a rehearsal, on the CPU.

    python jobs.py JOB

Rank and size come from the environment, as torchrun sets them. All ranks share GPU 0: NCCL 2.30 and
newer allow that with NCCL_MULTI_RANK_GPU_ENABLE=1. Messages are small and channels few, because the
ranks take turns on the device.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

CUDA = torch.cuda.is_available() and os.environ.get("PLANGUARD_GPU_REHEARSAL") != "1"
DEVICE = torch.device("cuda:0" if CUDA else "cpu")
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def ones(count: int) -> torch.Tensor:
    """Make a vector on the device."""
    return torch.ones(count, device=DEVICE)


def finish() -> None:
    """Wait for everything that was queued."""
    if CUDA:
        torch.cuda.synchronize()


def mlp() -> nn.Module:
    """Two layers, with equal weights on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)).to(DEVICE)


def plain() -> None:
    """Call every collective once, and a message each way."""
    x = ones(64)
    dist.all_reduce(x)
    dist.broadcast(x, 1)
    dist.reduce(x, 0)
    dist.all_gather_into_tensor(ones(64 * WORLD), x)
    dist.reduce_scatter_tensor(ones(64), ones(64 * WORLD))
    dist.all_to_all_single(ones(64), ones(64))
    dist.barrier()
    both = [
        dist.P2POp(dist.isend, x, (RANK + 1) % WORLD),
        dist.P2POp(dist.irecv, ones(64), (RANK - 1) % WORLD),
    ]
    for work in dist.batch_isend_irecv(both):
        work.wait()


def ddp() -> None:
    """Three steps of DistributedDataParallel."""
    model = nn.parallel.DistributedDataParallel(mlp())
    for _ in range(3):
        model(torch.randn(8, 64, device=DEVICE)).sum().backward()


def amp() -> None:
    """DDP with a gradient scaler: every rank reads found_inf."""
    model = nn.parallel.DistributedDataParallel(mlp())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(DEVICE.type)
    for _ in range(2):
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
            loss = model(torch.randn(8, 64, device=DEVICE)).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def fsdp2() -> None:
    """One step of fully_shard."""
    from torch.distributed.fsdp import fully_shard

    model = mlp()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)(torch.randn(8, 64, device=DEVICE)).sum().backward()


def tensor_parallel() -> None:
    """One step of a DTensor module."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel as tp

    mesh = init_device_mesh(DEVICE.type, (WORLD,), mesh_dim_names=("tp",))
    plan = {"0": tp.ColwiseParallel(), "2": tp.RowwiseParallel()}
    model = tp.parallelize_module(mlp(), mesh["tp"], plan)
    model(torch.ones(8, 64, device=DEVICE, requires_grad=True)).sum().backward()


def pipeline() -> None:
    """One step of 1F1B with four microbatches."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    torch.manual_seed(0)
    stage = PipelineStage(nn.Linear(64, 64).to(DEVICE), RANK, WORLD, DEVICE)
    schedule = Schedule1F1B(stage, 4, loss_fn=nn.functional.mse_loss)
    batch = torch.randn(8, 64, device=DEVICE)
    first, last = RANK == 0, RANK == WORLD - 1
    schedule.step(*([batch] if first else []), **({"target": batch} if last else {}))


def groups() -> None:
    """Groups made by new_group, used in one order."""
    pairs = [dist.new_group([0, 1]) for _ in range(2)]
    for pair in pairs:
        dist.all_reduce(ones(8), group=pair)


def crossed() -> None:
    """Two groups in opposite order: ends where their kernels run side by side."""
    pairs = [dist.new_group([0, 1]) for _ in range(2)]
    for pair in pairs:  # communicators exist before the orders differ
        dist.all_reduce(ones(8), group=pair)
    finish()
    dist.barrier()
    works = [
        dist.all_reduce(ones(1 << 20), group=pair, async_op=True)
        for pair in (pairs if RANK == 0 else pairs[::-1])
    ]
    for work in works:
        work.wait()


def captured() -> None:
    """One all_reduce captured in a CUDA graph and replayed three times."""
    x = ones(64)
    dist.all_reduce(x)
    finish()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    for _ in range(3):
        graph.replay()


def hang_extra() -> None:
    """Rank 0 calls one all_reduce more."""
    for _ in range(2 + (RANK == 0)):
        dist.all_reduce(ones(64))
    finish()
    stay()


def hang_barrier() -> None:
    """A barrier under `if rank == 0`."""
    dist.all_reduce(ones(64))
    if RANK == 0:
        dist.barrier()
    dist.broadcast(ones(64), 0)
    finish()


def hang_loader() -> None:
    """The loader of rank 1 is one batch shorter."""
    model = nn.parallel.DistributedDataParallel(mlp())
    for _ in range(3 - (RANK == 1)):
        model(torch.randn(8, 64, device=DEVICE)).sum().backward()
    finish()
    stay()


def hang_crossed() -> None:
    """Blocking calls on two groups in opposite order."""
    pairs = [dist.new_group([0, 1]) for _ in range(2)]
    for pair in pairs if RANK == 0 else pairs[::-1]:
        dist.all_reduce(ones(64), group=pair)
        finish()


def hang_state() -> None:
    """Rank 0 alone gathers the state of a sharded model."""
    from torch.distributed.fsdp import fully_shard

    model = mlp()
    fully_shard(model)
    if RANK == 0:
        for value in model.state_dict().values():
            value.full_tensor()
        finish()
    stay()


def stay() -> None:
    """Stay alive, as a job does that goes on."""
    time.sleep(600)


def calls() -> None:
    """Time small all_reduces of one rank: microseconds a call on the host."""
    x = ones(8)
    count = int(os.environ.get("PLANGUARD_GPU_CALLS", "20000"))
    dist.all_reduce(x)
    finish()
    begin = time.perf_counter()
    for _ in range(count):
        dist.all_reduce(x)
    taken = time.perf_counter() - begin
    finish()
    print(json.dumps({"us_per_call": taken / count * 1e6}))


def steps() -> None:
    """Time steps of a DDP model of 100 million parameters: milliseconds a step."""
    width = 4096 if CUDA else 256
    layers = [nn.Linear(width, width) for _ in range(6)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers).to(DEVICE))
    x = torch.randn(8, width, device=DEVICE)
    for _ in range(5):
        model(x).sum().backward()
    finish()
    count = 50
    begin = time.perf_counter()
    for _ in range(count):
        model(x).sum().backward()
    finish()
    if RANK == 0:
        print(json.dumps({"ms_per_step": (time.perf_counter() - begin) / count * 1e3}))


def main() -> None:
    """Run one rank of the job that the command line names."""
    job = globals()[sys.argv[1]]
    if CUDA:
        torch.cuda.set_device(0)
    limit = dt.timedelta(seconds=float(os.environ.get("PLANGUARD_GPU_TIMEOUT", "60")))
    dist.init_process_group("nccl" if CUDA else "gloo", timeout=limit)
    guarded = os.environ.get("PLANGUARD_GPU_GUARD")
    if guarded:
        from planguard import live

        # Where the other rank is in no call, the warning is all that is said, and 25 s is soon.
        live.guard(
            timeout=float(guarded), warn_after=float(guarded), exit_code=42,
            report=os.environ["PLANGUARD_GPU_REPORT"],
        )  # fmt: skip
    job()
    finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
