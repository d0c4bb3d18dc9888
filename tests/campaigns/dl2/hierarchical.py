"""Hierarchical collectives, put together from plain collectives and messages on two levels.

Ranks are nodes x local ranks, local ones neighbors. On either level a step is a plain collective
of the group (``plain``) or made of sends and receives (``messages``); a synthesis combines them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from dl2.parallel import all_gather, reduce_scatter

if TYPE_CHECKING:
    from collections.abc import Sequence

COLLECTIVES = ("all_to_all", "all_reduce", "all_gather", "broadcast", "reduce_scatter")
WAYS = ("plain", "messages")


@dataclass(frozen=True)
class Config:
    """One synthesized collective.

    Attributes:
        collective: One of ``COLLECTIVES``.
        nodes: Number of nodes.
        local: Ranks of a node.
        inner: How a step inside a node is done, one of ``WAYS``.
        outer: How a step between nodes is done.
        chunk: Elements that go from one rank to another.
        times: How often the collective is issued.
    """

    collective: str
    nodes: int
    local: int
    inner: str
    outer: str
    chunk: int = 16
    times: int = 2

    @property
    def name(self) -> str:
        """A file name for the plan."""
        shape = f"{self.nodes}x{self.local}"
        return f"{self.collective}-{shape}-{self.inner}-{self.outer}-{self.chunk}x{self.times}"


def train(config: Config) -> None:
    """Issue the collective a few times on this rank."""
    dist.init_process_group("gloo")
    levels = make_levels(config)
    world = dist.get_world_size()
    for _ in range(config.times):
        run(config, levels, torch.ones(world * config.chunk))
    dist.barrier()


def make_levels(config: Config) -> tuple[Level, Level]:
    """Make the groups of both levels; return those of this rank, inner and outer."""
    rank, world = dist.get_rank(), dist.get_world_size()
    inner = [list(range(at, at + config.local)) for at in range(0, world, config.local)]
    outer = [list(range(at, world, config.local)) for at in range(config.local)]
    found = []
    for parts, way in ((inner, config.inner), (outer, config.outer)):
        for members in parts:
            group = dist.new_group(members)
            if rank in members:
                found.append(Level(tuple(members), group, way))
    return found[0], found[1]


def run(config: Config, levels: tuple[Level, Level], x: torch.Tensor) -> torch.Tensor:
    """Run the collective on a tensor of ``world x chunk`` elements.

    ``broadcast`` is from rank 0, ``all_reduce`` and ``reduce_scatter`` add, ``all_gather`` takes
    the first chunk of every rank.
    """
    inner, outer = levels
    grid = x.view(config.nodes, config.local, config.chunk)
    if config.collective == "broadcast":
        x = x.clone()
        if dist.get_rank() in (first := _first(config)):
            x = outer.broadcast(x, first.index(0))
        return inner.broadcast(x, 0)
    if config.collective == "all_reduce":
        return inner.all_gather(outer.all_reduce(inner.reduce_scatter(x)))
    if config.collective == "all_gather":
        return outer.all_gather(inner.all_gather(x[: config.chunk].clone()))
    turned = grid.transpose(0, 1).contiguous().view(-1)  # by local rank, then by node
    if config.collective == "reduce_scatter":
        return outer.reduce_scatter(inner.reduce_scatter(turned))
    met = inner.all_to_all(turned)  # from every local rank: what goes to my column, by node
    met = met.view(config.local, config.nodes, config.chunk).transpose(0, 1).contiguous()
    return outer.all_to_all(met.view(-1))


def _first(config: Config) -> list[int]:
    return list(range(0, config.nodes * config.local, config.local))


@dataclass(frozen=True)
class Level:
    """The group of this rank on one level.

    Attributes:
        members: Ranks, in order.
        group: Process group.
        way: One of ``WAYS``.
    """

    members: tuple[int, ...]
    group: Any
    way: str

    @property
    def at(self) -> int:
        """Place of this rank."""
        return self.members.index(dist.get_rank())

    def broadcast(self, x: torch.Tensor, root: int) -> torch.Tensor:
        """Bring the tensor of the member ``root`` to all, along a chain."""
        if self.way == "plain":
            dist.broadcast(x, src=self.members[root], group=self.group)
            return x
        place, size = (self.at - root) % len(self.members), len(self.members)
        if place:
            dist.recv(x, src=self._peer(-1))
        if place + 1 < size:
            dist.send(x, dst=self._peer(1))
        return x

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        """Add the tensors of all members."""
        if self.way == "plain" or x.numel() % len(self.members):
            x = x.clone()
            dist.all_reduce(x, group=self.group)
            return x
        return self.all_gather(self.reduce_scatter(x))

    def reduce_scatter(self, x: torch.Tensor) -> torch.Tensor:
        """Add the tensors of all members and keep the own part; a ring of messages."""
        parts, size = list(x.chunk(len(self.members))), len(self.members)
        if self.way == "plain":
            out = torch.empty_like(parts[0])
            reduce_scatter(out, x.contiguous(), group=self.group)
            return out
        total = parts[(self.at - 1) % size].clone()
        for step in range(1, size):
            total = self._shift(total, 1) + parts[(self.at - 1 - step) % size]
        return total

    def all_gather(self, x: torch.Tensor) -> torch.Tensor:
        """Put the tensors of all members one behind the other; a ring of messages."""
        size = len(self.members)
        if self.way == "plain":
            out = x.new_empty(size * x.numel())
            all_gather(out, x, group=self.group)
            return out
        parts: list[Any] = [None] * size
        for step in range(size):
            parts[(self.at - step) % size] = x
            if step + 1 < size:
                x = self._shift(x, 1)
        return torch.cat(parts)

    def all_to_all(self, x: torch.Tensor) -> torch.Tensor:
        """Give every member its part; messages to the neighbor, the next but one, and so on."""
        size = len(self.members)
        if self.way == "plain":
            out = torch.empty_like(x)
            dist.all_to_all_single(out, x, group=self.group)
            return out
        parts = list(x.chunk(size))
        found = [parts[self.at]] * size
        for step in range(1, size):
            found[(self.at - step) % size] = self._shift(parts[(self.at + step) % size], step)
        return torch.cat(found)

    def _shift(self, x: torch.Tensor, by: int) -> torch.Tensor:
        """Send to the member ``by`` places on, and return what comes from as far back."""
        into = torch.empty_like(x)
        sending = dist.isend(x.contiguous(), dst=self._peer(by))
        dist.recv(into, src=self._peer(-by))
        sending.wait()
        return into

    def _peer(self, by: int) -> int:
        return self.members[(self.at + by) % len(self.members)]


def verify(config: Config) -> bool:
    """Whether the collective gives on real processes what a plain one of the world gives."""
    world, rank = dist.get_world_size(), dist.get_rank()
    levels = make_levels(config)
    x = torch.arange(world * config.chunk, dtype=torch.float32) + 1000 * rank
    got = run(config, levels, x.clone())
    return bool(torch.equal(got, _plainly(config, x)))


def _plainly(config: Config, x: torch.Tensor) -> torch.Tensor:
    world, out = dist.get_world_size(), torch.empty_like(x)
    if config.collective == "broadcast":
        dist.broadcast(x, src=0)
    elif config.collective == "all_reduce":
        dist.all_reduce(x)
    elif config.collective == "all_gather":
        all_gather(out, x[: config.chunk].clone())
        return out
    elif config.collective == "reduce_scatter":
        dist.all_reduce(x)
        return x.chunk(world)[dist.get_rank()]
    else:
        dist.all_to_all_single(out, x)
        return out
    return x


def configs(collective: str, size: int) -> Sequence[Config]:
    """Return four syntheses for a number of ranks: every way on either level."""
    shapes = {2: ((1, 2), (2, 1)), 4: ((2, 2),), 6: ((2, 3), (3, 2)), 8: ((2, 4), (4, 2))}[size]
    ways = [(inner, outer) for inner in WAYS for outer in WAYS]
    return [
        Config(collective, *shapes[at % len(shapes)], inner, outer, chunk=16 << at)
        for at, (inner, outer) in enumerate(ways)
    ]
