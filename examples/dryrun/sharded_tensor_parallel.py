"""One step of fully_shard over tensor parallelism: the ranks are dp x tp.

torchrun --nnodes 8 --nproc-per-node 8 sharded_tensor_parallel.py 8 8 8 1024
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import parallel as tp


class Block(nn.Module):
    """A feed-forward block with a residual connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x plus what the block makes of it."""
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def main() -> None:
    """Shard a model both ways and do one step."""
    dp, shards, blocks, width = map(int, sys.argv[1:5])
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dp, shards), mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(*[Block(width) for _ in range(blocks)])
    for block in model:
        plan = {"up": tp.ColwiseParallel(), "down": tp.RowwiseParallel()}
        tp.parallelize_module(block, mesh["tp"], plan)
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 128, width)).sum().backward()
    optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
