"""One training job: data parallelism by DDP times tensor parallelism, as a user would write it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BRANCHES = 4
"""Most branches of a block of Inception."""


@dataclass(frozen=True)
class Config:
    """What one job does.

    Attributes:
        model: A name of ``models.MODELS``.
        dp: Data-parallel replicas.
        tp: Ranks that share a replica.
        steps: Optimizer steps.
        accumulate: Batches per step; gradients are reduced with the last.
        bucket_mb: Size of DDP's buckets.
        clip: Whether the norm of the gradients is agreed over the tensor group.
        report: How the loss reaches rank 0: ``reduce``, ``gather`` or ``send``.
        schedule: Seed of the order of branches per rank (Inception); None for the written one.
        exchange: How split convolutions communicate (Inception): ``shared``, collectives of one
            group; ``branch``, collectives of a group per branch; ``message``, sends and receives
            with a tag per convolution. Of the last two, ranks of one block have orders of their
            own; of the first as ``inception.orders`` says.
    """

    model: str
    dp: int
    tp: int
    steps: int = 1
    accumulate: int = 1
    bucket_mb: float = 25.0
    clip: bool = False
    report: str = "reduce"
    schedule: int | None = None
    exchange: str = "shared"

    @property
    def name(self) -> str:
        """A file name for the plan of the job."""
        schedule = "" if self.schedule is None else f"-order{self.schedule}"
        return (
            f"{self.model}-dp{self.dp}tp{self.tp}-s{self.steps}a{self.accumulate}"
            f"-b{self.bucket_mb:g}-{'clip-' if self.clip else ''}{self.report}{schedule}"
            f"{'' if self.exchange == 'shared' else '-' + self.exchange}"
        )


def train(config: Config) -> None:
    """Run the job on this rank."""
    from dl2.models import MODELS
    from dl2.parallel import split, split_branches

    dist.init_process_group("gloo")
    tensor, data = _groups(config)
    torch.manual_seed(0)
    drawn = {}
    if config.schedule is not None:
        drawn = {"schedule": config.schedule, "is_one_block": config.exchange != "shared"}
    model = MODELS[config.model](**drawn)
    module = model.build()
    if config.exchange == "shared":
        split(module, tensor, model.pairs, model.singles)
    else:
        split_branches(module, tensor, _branches(config))
    parts = list(module.parameters())
    if config.dp > 1:
        module = DistributedDataParallel(
            module, process_group=data, bucket_cap_mb=config.bucket_mb, find_unused_parameters=False
        )
    optimizer = torch.optim.SGD(parts, lr=0.01)
    for _ in range(config.steps):
        loss = _backward(config, model, module, tensor)
        if config.clip and config.tp > 1:
            _clip(parts, tensor)
        optimizer.step()
        optimizer.zero_grad()
        _report(config, loss.detach())
    dist.barrier()


def _groups(config: Config) -> tuple[Any, Any]:
    """Return the tensor group and the data group of this rank; tensor ranks are neighbors."""
    rank, world = dist.get_rank(), dist.get_world_size()
    tensor = data = None
    for first in range(0, world, config.tp):
        ranks = list(range(first, first + config.tp))
        group = dist.new_group(ranks)
        tensor = group if rank in ranks else tensor
    for first in range(config.tp):
        ranks = list(range(first, world, config.tp))
        group = dist.new_group(ranks)
        data = group if rank in ranks else data
    return tensor, data


def _branches(config: Config) -> list[Any]:
    """Return a group per branch of this replica's blocks; none if branches send messages."""
    if config.exchange != "branch":
        return []
    rank, own = dist.get_rank(), []
    for first in range(0, dist.get_world_size(), config.tp):
        ranks = list(range(first, first + config.tp))
        groups = [dist.new_group(ranks) for _ in range(BRANCHES)]
        own = groups if rank in ranks else own
    return own


def _backward(config: Config, model: Any, module: Any, tensor: Any) -> torch.Tensor:
    loss = torch.zeros(())
    root = dist.get_global_rank(tensor, 0)
    for turn in range(config.accumulate):
        batch = model.batch()
        if config.tp > 1:  # the ranks of a replica see one batch
            for part in batch:
                dist.broadcast(part, src=root, group=tensor)
        last = turn == config.accumulate - 1
        with nullcontext() if last or config.dp == 1 else module.no_sync():
            loss = model.loss(module, *batch)
            loss.backward()
    return loss


def _clip(parameters: list[Any], tensor: Any) -> None:
    squares = [p.grad.square().sum() for p in parameters if p.grad is not None]
    norm = torch.stack(squares).sum().reshape(1)
    dist.all_reduce(norm, group=tensor)
    scale = torch.clamp(1.0 / norm.sqrt(), max=1.0)
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(scale)


def _report(config: Config, loss: torch.Tensor) -> None:
    """Bring the loss of every replica to rank 0."""
    loss = loss.reshape(1).clone()
    rank = dist.get_rank()
    if config.report == "reduce":
        dist.reduce(loss, dst=0)
    elif config.report == "gather":
        parts = [torch.empty_like(loss) for _ in range(dist.get_world_size())] if not rank else None
        dist.gather(loss, parts, dst=0)
    elif rank:
        dist.send(loss, dst=0)
    else:
        for peer in range(1, dist.get_world_size()):
            dist.recv(loss, src=peer)
