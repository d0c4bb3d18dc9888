"""Capture a tensor-parallel model on 8 ranks and check its graphs.

python examples/fx/capture_tensor_parallel.py
"""

import torch
from torch import nn
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import planguard
import planguard.capture


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


def shard(model: nn.Module, mesh: object) -> nn.Module:
    """Run in every rank's process, where its process group and mesh exist."""
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    return parallelize_module(model, mesh["tp"], plan)


inputs = (torch.randn(4, 16, requires_grad=True),)
bundle = planguard.capture.fx(Mlp(), inputs, 8, mesh={"dp": 2, "tp": 4}, prepare=shard)
verdict = planguard.check(bundle)
print(f"{len(bundle.programs)} ranks captured")
print(verdict)
assert verdict.safe
