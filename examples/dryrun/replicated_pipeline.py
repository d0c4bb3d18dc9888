"""One step of 1F1B with every stage replicated by DDP: the ranks are dp x pp.

torchrun --nnodes 64 --nproc-per-node 8 replicated_pipeline.py 64 8 16 256
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


def main() -> None:
    """Build the stage of this rank and do one step."""
    dp, pp, microbatches, width = map(int, sys.argv[1:5])
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dp, pp), mesh_dim_names=("dp", "pp"))
    place = mesh.get_local_rank("pp")
    layers = nn.Sequential(*[nn.Linear(width, width) for _ in range(4)])
    module = nn.parallel.DistributedDataParallel(layers, process_group=mesh.get_group("dp"))
    stage = PipelineStage(module, place, pp, torch.device("cpu"), group=mesh.get_group("pp"))
    schedule = Schedule1F1B(stage, microbatches, loss_fn=nn.functional.mse_loss)
    batch = 2 * microbatches
    inputs = (torch.randn(batch, width),) if place == 0 else ()
    last = {"target": torch.randn(batch, width)} if place == pp - 1 else {}
    schedule.step(*inputs, **last)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
