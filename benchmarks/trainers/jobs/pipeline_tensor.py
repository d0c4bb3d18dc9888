"""Four ranks: two pipeline stages (1F1B), each with tensor parallelism over two ranks."""

import torch
import torch.distributed as dist
from common import slips
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "tp"))
    torch.manual_seed(0)
    block = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    block = parallelize_module(block, mesh["tp"], plan)
    place = mesh.get_local_rank("pp")
    stage = PipelineStage(block, place, 2, torch.device("cpu"), group=mesh.get_group("pp"))
    count = 2 if slips("fewer micro-batches on one rank", rank, 3) else 4
    schedule = Schedule1F1B(stage, count, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
    for _ in range(2):
        if place == 0:
            schedule.step(torch.randn(8, 8))
        else:
            schedule.step(target=torch.randn(8, 8), losses=[])
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
