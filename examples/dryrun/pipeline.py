"""One step of each of some schedules of torch.distributed.pipelining.

torchrun --nproc-per-node 4 pipeline.py 8 Schedule1F1B ScheduleInterleaved1F1B
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

WIDTH = 16


def step(name: str, microbatches: int) -> None:
    """Build the stages of this rank and do one step."""
    rank, world = dist.get_rank(), dist.get_world_size()
    is_single = name in ("Schedule1F1B", "ScheduleGPipe")
    count = world if is_single else 2 * world
    rank_of = generate_stage_to_rank_mapping(world, count, "v" if "ZBV" in name else "loop")
    mine = [stage for stage in range(count) if rank_of[stage] == rank]
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(count)]
    stages = [PipelineStage(layers[s], s, count, torch.device("cpu")) for s in mine]
    make = getattr(schedules, name)
    schedule = make(
        stages[0] if is_single else stages, microbatches, loss_fn=nn.functional.mse_loss
    )
    batch = 2 * microbatches
    inputs = (torch.randn(batch, WIDTH),) if 0 in mine else ()
    last = {"target": torch.randn(batch, WIDTH), "losses": []} if count - 1 in mine else {}
    schedule.step(*inputs, **last)


def main() -> None:
    """Do one step of every schedule that is named."""
    dist.init_process_group("gloo")
    for name in sys.argv[2:]:
        step(name, int(sys.argv[1]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
