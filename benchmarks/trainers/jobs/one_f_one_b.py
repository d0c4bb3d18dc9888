"""torch.distributed.pipelining and nothing beside it: one step of 1F1B on two ranks."""

import torch
import torch.distributed as dist
from common import SLIP
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

WIDTH = 16
BATCHES = 4
ROWS = 2


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    stage = PipelineStage(torch.nn.Linear(WIDTH, WIDTH), rank, world, torch.device("cpu"))
    # On all ranks: the job ends well, and yet is not what was planned.
    count = BATCHES // 2 if SLIP == "fewer micro-batches on all ranks" else BATCHES
    schedule = Schedule1F1B(stage, count, loss_fn=torch.nn.functional.mse_loss)
    if rank == 0:
        schedule.step(torch.randn(ROWS * count, WIDTH))
    else:
        schedule.step(target=torch.randn(ROWS * count, WIDTH), losses=[])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
