"""Inception-V3 with branches in any order, after Szegedy et al. 2015 (table 1, figures 5 to 7)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Sequence

SHAPE = (2, 3, 75, 75)
"""One batch; smaller pictures than the paper's 299 x 299, through the same layers."""


class Conv(nn.Module):
    """Convolution, normalization, activation."""

    def __init__(
        self, inputs: int, outputs: int, kernel: Any, stride: int = 1, padding: Any = 0
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)))


class Fork(nn.Module):
    """The end of a branch that parts once more: both ends side by side."""

    def __init__(self, *ends: nn.Module) -> None:
        super().__init__()
        self.ends = nn.ModuleList(ends)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([end(x) for end in self.ends], 1)


class Block(nn.Module):
    """Branches that do not depend on each other, computed in ``order``."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)
        self.order = list(range(len(branches)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: list[Any] = [None] * len(self.order)
        for at in self.order:
            found[at] = self.branches[at](x)
        return torch.cat(found, 1)


def _chain(inputs: int, *steps: tuple[Any, ...]) -> nn.Sequential:
    """Return convolutions in a row; a step is outputs, kernel, stride and padding."""
    layers = []
    for step in steps:
        layers.append(Conv(inputs, *step))
        inputs = step[0]
    return nn.Sequential(*layers)


def _pooled(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), Conv(inputs, outputs, 1))


def block_a(inputs: int, pool: int) -> Block:
    """5 x 5 and twice 3 x 3 beside 1 x 1 (figure 5)."""
    return Block(
        _chain(inputs, (64, 1)),
        _chain(inputs, (48, 1), (64, 5, 1, 2)),
        _chain(inputs, (64, 1), (96, 3, 1, 1), (96, 3, 1, 1)),
        _pooled(inputs, pool),
    )


def block_b(inputs: int) -> Block:
    """Half the grid (figure 10)."""
    return Block(
        _chain(inputs, (384, 3, 2)),
        _chain(inputs, (64, 1), (96, 3, 1, 1), (96, 3, 2)),
        nn.MaxPool2d(3, 2),
    )


def block_c(inputs: int, middle: int) -> Block:
    """7 x 7 in pieces of 1 x 7 and 7 x 1 (figure 6)."""
    wide, high = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
    return Block(
        _chain(inputs, (192, 1)),
        _chain(inputs, (middle, 1), (middle, *wide), (192, *high)),
        _chain(
            inputs, (middle, 1), (middle, *high), (middle, *wide), (middle, *high), (192, *wide)
        ),
        _pooled(inputs, 192),
    )


def block_d(inputs: int) -> Block:
    """Half the grid again."""
    return Block(
        _chain(inputs, (192, 1), (320, 3, 2)),
        _chain(inputs, (192, 1), (192, (1, 7), 1, (0, 3)), (192, (7, 1), 1, (3, 0)), (192, 3, 2)),
        nn.MaxPool2d(3, 2),
    )


def block_e(inputs: int) -> Block:
    """Branches that part at their end (figure 7)."""

    def parted(into: int) -> Fork:
        return Fork(Conv(into, 384, (1, 3), 1, (0, 1)), Conv(into, 384, (3, 1), 1, (1, 0)))

    return Block(
        _chain(inputs, (320, 1)),
        nn.Sequential(Conv(inputs, 384, 1), parted(384)),
        nn.Sequential(Conv(inputs, 448, 1), Conv(448, 384, 3, 1, 1), parted(384)),
        _pooled(inputs, 192),
    )


def network() -> nn.Sequential:
    """Return the whole network: 94 convolutions, 11 blocks, 1,000 classes."""
    return nn.Sequential(
        _chain(3, (32, 3, 2), (32, 3), (64, 3, 1, 1)),
        nn.MaxPool2d(3, 2),
        _chain(64, (80, 1), (192, 3)),
        nn.MaxPool2d(3, 2),
        block_a(192, 32),
        block_a(256, 64),
        block_a(288, 64),
        block_b(288),
        *(block_c(768, middle) for middle in (128, 160, 160, 192)),
        block_d(768),
        block_e(1280),
        block_e(2048),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2048, 1000),
    )


def scheduled(schedule: int, tp: int = 2, *, is_one_block: bool = False) -> nn.Module:
    """Return the network with the branches in the order that a schedule gives this rank."""
    model = network()
    blocks = [module for module in model if isinstance(module, Block)]
    rank = dist.get_rank()
    drawn = one_block(schedule, rank) if is_one_block else orders(schedule, rank, tp)
    for block, order in zip(blocks, drawn, strict=True):
        block.order = [at for at in order if at < len(block.order)]
    return model


def orders(schedule: int, rank: int, tp: int) -> Sequence[list[int]]:
    """Return the orders of four branches per block on a rank.

    A quarter of the schedules is one order for all ranks, a quarter one for the ranks of each
    replica, the others leave every rank its own.
    """
    shared = {0: 0, 1: rank // tp}.get(schedule % 4, rank)
    rng = random.Random(f"{schedule}/{shared}")
    return [rng.sample(range(4), 4) for _ in range(11)]


def one_block(schedule: int, rank: int) -> Sequence[list[int]]:
    """Return the orders of four branches per block: of one block, every rank draws its own.

    As the paper has it: "randomly reordering the scheduling of the four branches within an
    Inception block". Which block, the schedule draws for all ranks; nothing else is decided here,
    so ranks of a replica may draw one order.
    """
    block = random.Random(f"block {schedule}").randrange(11)
    rng = random.Random(f"{schedule}/{rank}")
    return [rng.sample(range(4), 4) if at == block else list(range(4)) for at in range(11)]
