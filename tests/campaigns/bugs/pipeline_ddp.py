"""What DistributedDataParallel does to the stages of torch's pipeline schedules.

    python tests/campaigns/bugs/pipeline_ddp.py                # one step, then two
    python tests/campaigns/bugs/pipeline_ddp.py --record RUN   # one step of ZBVZeroBubble, recorded

Four gloo processes, two pipeline ranks times two data-parallel ones, no GPU. After the last step
the gradients of the two replicas of every stage are compared; DDP is there to make them equal.
Bugs 13 and 14 of docs/bugs-found-2.md.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

NAMES = ("GPipe", "1F1B", "LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble",
         "DualPipeV")  # fmt: skip
SINGLE, IN_A_V = ("GPipe", "1F1B"), ("ZBVZeroBubble", "DualPipeV")


def stages_of(name: str, mesh: Any) -> tuple[list[Any], dict[int, int], int]:
    """Make the stages of this rank, each wrapped in DDP over its replicas."""
    count = 2 if name in SINGLE else 4
    rank_of = generate_stage_to_rank_mapping(2, count, "v" if name in IN_A_V else "loop")
    own = []
    for index in range(count):
        torch.manual_seed(index)
        part: nn.Module = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        if rank_of[index] == mesh["pp"].get_local_rank():
            part = nn.parallel.DistributedDataParallel(part, process_group=mesh["dp"].get_group())
            device, group = torch.device("cpu"), mesh["pp"].get_group()
            own.append(pipelining.PipelineStage(part, index, count, device, group=group))
    return own, rank_of, count


def train(name: str, mesh: Any, steps: int) -> list[Any]:
    """Take steps with four microbatches each, every replica on data of its own."""
    own, rank_of, count = stages_of(name, mesh)
    make = getattr(pipelining, f"Schedule{name}")
    schedule = make(own[0] if name in SINGLE else own, 4,
                    loss_fn=lambda y, target: (y - target).square().mean())  # fmt: skip
    me = mesh["pp"].get_local_rank()
    torch.manual_seed(10 + mesh["dp"].get_local_rank())
    x, target = torch.randn(8, 8), torch.randn(8, 8)
    given = {"target": target} if rank_of[count - 1] == me else {}
    for _ in range(steps):
        schedule.step(*([x] if rank_of[0] == me else []), **given)
    return own


def compare(stages: list[Any], mesh: Any) -> None:
    """Print the norms of the gradients on both replicas."""
    for stage in stages:
        mine = torch.cat([p.grad.flatten() for p in stage.submod.parameters()])
        both = [torch.empty_like(mine) for _ in range(2)]
        dist.all_gather(both, mine, group=mesh["dp"].get_group())
        if mesh["dp"].get_local_rank() == 0:
            norms = ", ".join(f"{one.norm():.5f}" for one in both)
            said = "equal" if torch.allclose(*both) else "DIFFERENT"
            print(f"  stage {stage.stage_index}: gradient norms {norms}: {said}\n", end="")


def be_rank(rank: int, name: str, steps: int, folder: Path, record: Path | None) -> None:
    """Run one rank in a forked process; never returns."""
    warnings.simplefilter("ignore")
    code = 1
    try:
        if record is not None:
            from planguard.capture import start

            start(record)
        store = dist.FileStore(str(folder / "store"), 4)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=4)
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
        stages = train(name, mesh, steps)
        if record is not None:
            from planguard.capture import stop

            stop()
        compare(stages, mesh)
        dist.barrier()
        code = 0
    except RuntimeError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if "transport" not in str(cause):  # the others lose their peer
            print(f"  rank {rank}: {str(cause)[:120]}\n", end="")
    finally:
        os._exit(code)


def run(name: str, steps: int, record: Path | None = None) -> None:
    """Run one schedule on four processes."""
    print(f"{name}, {steps} step{'s' * (steps > 1)}, torch {torch.__version__}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        pids = []
        for rank in range(4):
            pids.append(os.fork())
            if not pids[-1]:
                be_rank(rank, name, steps, Path(folder), record)
        for pid in pids:
            os.waitpid(pid, 0)


def main() -> None:
    """Run the schedules."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--only", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--record", type=Path, help="record one step of ZBVZeroBubble here")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)  # a forked rank must not enter the parent's pool of threads
    if given.record is not None:
        given.record.mkdir(parents=True)
        return run("ZBVZeroBubble", 1, given.record)
    for steps in (1, 2):
        for name in given.only:
            run(name, steps)
    return None


if __name__ == "__main__":
    main()
