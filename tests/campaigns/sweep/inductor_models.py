"""Small jobs with functional collectives, for Inductor's passes: world of four, CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor import parallel as tp

if TYPE_CHECKING:
    from collections.abc import Callable

WORLD = 4
WIDTH = 16


class Reduce(torch.autograd.Function):
    """Average the gradient over a group, the way compiled DDP does: divide, then all_reduce."""

    @staticmethod
    def forward(ctx: Any, weight: Any, group: Any) -> Any:
        ctx.group = group
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        size = dist.get_world_size(ctx.group)
        return funcol.all_reduce(grad / size, "sum", ctx.group), None


class Replicated(nn.Module):
    """A linear layer whose gradient is averaged over a group."""

    def __init__(self, group: Any, width: int = WIDTH) -> None:
        super().__init__()
        self.weight, self.group = nn.Parameter(torch.randn(width, width) / 4), group

    def forward(self, x: Any) -> Any:
        """Multiply and clip."""
        return (x @ Reduce.apply(self.weight, self.group)).relu()


class Sharded(nn.Module):
    """A linear layer sharded over the last dimension of a mesh, gathered for use (SimpleFSDP)."""

    def __init__(self, mesh: Any, rows: int = WIDTH) -> None:
        super().__init__()
        rest = [Replicate()] * (mesh.ndim - 1)
        whole = torch.randn(rows, WIDTH) / 4
        self.weight = nn.Parameter(distribute_tensor(whole, mesh, [*rest, Shard(0)]))
        self.rows, self.ndim = rows, mesh.ndim

    def forward(self, x: Any) -> Any:
        """Gather, multiply, clip."""
        whole = self.weight.redistribute(placements=[Replicate()] * self.ndim)
        used = whole.to_local(grad_placements=[Partial("avg")] * self.ndim)
        return (x[:, : self.rows] @ used).relu()


class Gathered16(Sharded):
    """The same in bfloat16, as mixed precision does: convert, then gather."""

    def forward(self, x: Any) -> Any:
        """Gather in half the precision."""
        half = self.weight.to(torch.bfloat16)
        whole = half.redistribute(placements=[Replicate()] * self.ndim)
        used = whole.to_local(grad_placements=[Partial("avg")] * self.ndim)
        return (x[:, : self.rows] @ used.float()).relu()


class GatherTwice(torch.autograd.Function):
    """Multiply by a gathered weight, gather it again in the backward pass, scatter its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, group: Any) -> Any:
        ctx.save_for_backward(x, weight)
        ctx.group = group
        return x @ funcol.all_gather_tensor(weight, 0, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, weight = ctx.saved_tensors
        whole = funcol.all_gather_tensor(weight, 0, ctx.group)
        mine = funcol.reduce_scatter_tensor(x.t() @ grad, "sum", 0, ctx.group)
        return grad @ whole.t(), mine, None


class Regathered(nn.Module):
    """A sharded layer that keeps no whole weight between forward and backward (FSDP proper)."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.weight, self.group = nn.Parameter(torch.randn(WIDTH // WORLD, WIDTH) / 4), group

    def forward(self, x: Any) -> Any:
        """Gather, multiply, clip."""
        return GatherTwice.apply(x, self.weight, self.group).relu()


class Extra(nn.Module):
    """Rank 0 does more: a product that no other rank computes (a metric, say)."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner, self.first = inner, dist.get_rank() == 0

    def forward(self, x: Any) -> Any:
        """Run the inner module; on rank 0 with a product in front."""
        if self.first:
            wide = x.repeat(8, 8)
            x = x + 0.0 * (wide @ wide.t()).sum()
        return self.inner(x)


class Experts(nn.Module):
    """Tokens to the experts and back, as many as the pair of ranks says."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        me = dist.get_rank()
        self.sent = [1 + (me + peer) % 2 for peer in range(WORLD)]
        self.expert, self.group = Replicated(group), group

    def forward(self, x: Any) -> Any:
        """Send tokens out, apply the expert, bring them back."""
        there = funcol.all_to_all_single_autograd(x, self.sent, self.sent, self.group)
        return funcol.all_to_all_single_autograd(self.expert(there), self.sent, self.sent,
                                                 self.group)  # fmt: skip


class NewtonSchulz(nn.Module):
    """The heart of Muon: gather a matrix, iterate on its Gram matrix, keep the own rows."""

    def __init__(self, mesh: Any, rows: int) -> None:
        super().__init__()
        whole = distribute_tensor(torch.randn(rows, 4) / 4, mesh, [Shard(0)])
        self.register_buffer("momentum", whole)

    def forward(self, x: Any) -> Any:
        """Return the own rows of the orthogonalized matrix; the input only scales."""
        whole = self.momentum.redistribute(placements=[Replicate()])
        mesh, full = whole.device_mesh, whole.to_local()
        for _ in range(2):
            full = 1.5 * full - 0.5 * (full @ (full.t() @ full))
        back = DTensor.from_local(full, mesh, [Replicate()], run_check=False)
        return back.redistribute(placements=[Shard(0)]).to_local() * x.sum().detach()


class Messages(nn.Module):
    """Two gathers with a message between pairs of ranks: even ranks send what they gathered."""

    def __init__(self, mesh: Any, *, fed: bool) -> None:
        super().__init__()
        self.group, self.me, self.fed = mesh.get_group(), dist.get_rank(), fed
        self.register_buffer("first", torch.randn(4, WIDTH))
        self.register_buffer("second", torch.randn(4, WIDTH))

    def forward(self, x: Any) -> Any:
        """Gather; send (even) or receive (odd); gather what came, or something else."""
        one = funcol.all_gather_tensor(self.first + x.sum().detach() * 0, 0, self.group)
        ops, name = torch.ops._c10d_functional, self.group.group_name
        if self.me % 2 == 0:
            sent = one[:4] * 2 if self.fed else x[:4] * 2
            message = ops.isend(sent.contiguous(), self.me + 1, 0, name)
            ops.wait_tensor(message)
            other = self.second
        else:
            message = ops.irecv(torch.empty(4, WIDTH), self.me - 1, 0, name)
            other = self.second + ops.wait_tensor(message)
        two = funcol.all_gather_tensor(other, 0, self.group)
        return one + two


def _layers(make: Callable[[], Any], count: int = 4) -> Any:
    return nn.Sequential(*[make() for _ in range(count)])


def _tensor_parallel(mesh: Any, hidden: int) -> Any:
    parts = []
    for _ in range(2):
        block = nn.Sequential(nn.Linear(WIDTH, hidden), nn.ReLU(), nn.Linear(hidden, WIDTH))
        plan = {"0": tp.ColwiseParallel(), "2": tp.RowwiseParallel()}
        parts.append(tp.parallelize_module(block, mesh, plan))
    return nn.Sequential(*parts)


def _sequence_parallel(mesh: Any) -> Any:
    block = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.ReLU(),
                          nn.Linear(32, WIDTH))  # fmt: skip
    plan = {"0": tp.SequenceParallel(sequence_dim=0),
            "1": tp.ColwiseParallel(input_layouts=Shard(0)),
            "3": tp.RowwiseParallel(output_layouts=Shard(0))}  # fmt: skip
    return tp.parallelize_module(block, mesh, plan)


def _two_groups(mesh: Any) -> Any:
    """Replicated layers of which every second is averaged over the other dimension of the mesh."""
    groups = [mesh["a"].get_group(), mesh["b"].get_group()]
    return nn.Sequential(*[Replicated(groups[n % 2]) for n in range(4)])


def _replicas(mesh: Any) -> Any:
    return _layers(lambda: Replicated(mesh.get_group()))


MODELS: dict[str, tuple[dict[str, int], Callable[[Any], Any]]] = {
    "muon": ({"a": 4}, lambda m: NewtonSchulz(m, 8)),
    "muon, uneven": ({"a": 4}, lambda m: NewtonSchulz(m, 7)),
    "muon, a rank without rows": ({"a": 4}, lambda m: NewtonSchulz(m, 5)),
    "messages": ({"a": 4}, lambda m: Messages(m, fed=False)),
    "messages of what was gathered": ({"a": 4}, lambda m: Messages(m, fed=True)),
    "ddp, rank 0 does more": ({"a": 4}, lambda m: Extra(_replicas(m))),
    "ddp on two groups": ({"a": 2, "b": 2}, _two_groups),
    "fsdp, uneven": ({"a": 4}, lambda m: _layers(lambda: Sharded(m, 9))),
    "fsdp, regathered": ({"a": 4}, lambda m: _layers(lambda: Regathered(m.get_group()))),
    "fsdp, regathered, rank 0 does more": (
        {"a": 4}, lambda m: Extra(_layers(lambda: Regathered(m.get_group())))),
    "tp, uneven": ({"a": 4}, lambda m: _tensor_parallel(m, 9)),
    "fsdp x replicas": ({"a": 2, "b": 2}, lambda m: _layers(lambda: Sharded(m))),
    "fsdp, bf16": ({"a": 4}, lambda m: nn.Sequential(Sharded(m), Gathered16(m), Gathered16(m),
                                                      Sharded(m))),
    "fsdp, rank 0 does more": ({"a": 4}, lambda m: Extra(_layers(lambda: Sharded(m)))),
    "tp of sequences": ({"a": 4}, _sequence_parallel),
    "tp of experts": ({"a": 4}, lambda m: _layers(lambda: Experts(m.get_group()), 2)),
    "tp": ({"a": 4}, lambda m: _tensor_parallel(m, 32)),
    "ddp": ({"a": 4}, _replicas),
    "fsdp": ({"a": 4}, lambda m: _layers(lambda: Sharded(m))),
}  # fmt: skip
"""Name to dimensions of the mesh and a function that makes the module of this rank."""


def batch() -> Any:
    """Return the input of this rank."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    return torch.randn(6, WIDTH, generator=generator, requires_grad=True)
