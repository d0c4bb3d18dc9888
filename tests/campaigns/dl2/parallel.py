"""Tensor parallelism after Megatron-LM, for the layers of any model: written against torch alone.

A pair of linear layers around an activation is split by columns, then by rows (one all_reduce
forward, one backward); a single linear layer is split by columns and its output gathered (one
all_gather forward, one all_reduce backward). So no model needs to know of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# torch 2.13 has new names for these two, and warns of the old ones.
all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
reduce_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)


class CopyToRanks(torch.autograd.Function):
    """Identity forward; the gradients of all ranks are added backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        grad = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class AddRanks(torch.autograd.Function):
    """The sum over all ranks forward; identity backward."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        x = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(_: Any, grad: torch.Tensor) -> Any:
        return grad, None


class GatherRanks(torch.autograd.Function):
    """The parts of all ranks side by side on one dimension; backward the own part."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any, dim: int) -> torch.Tensor:
        size = dist.get_world_size(group)
        ctx.group, ctx.dim, ctx.size = group, dim, size
        x = x.contiguous()
        out = x.new_empty((size * x.shape[0], *x.shape[1:]))
        all_gather(out, x, group=group)
        return torch.cat(out.chunk(size), dim=dim)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        own = dist.get_group_rank(ctx.group, dist.get_rank())
        return grad.chunk(ctx.size, dim=ctx.dim)[own].contiguous(), None, None


class CopyToPeer(torch.autograd.Function):
    """As ``CopyToRanks`` for a group of two, by tagged messages."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any, tag: int) -> torch.Tensor:
        ctx.group, ctx.tag = group, tag
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        grad = grad.contiguous()
        return grad + _from_peer(grad, ctx.group, ctx.tag), None, None


class GatherPeers(torch.autograd.Function):
    """As ``GatherRanks`` on the channels for a group of two, by tagged messages."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any, tag: int) -> torch.Tensor:
        ctx.group = group
        x = x.contiguous()
        other = _from_peer(x, group, tag)
        first = dist.get_group_rank(group, dist.get_rank()) == 0
        return torch.cat((x, other) if first else (other, x), dim=1)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        own = dist.get_group_rank(ctx.group, dist.get_rank())
        return grad.chunk(2, dim=1)[own].contiguous(), None, None


def _from_peer(x: torch.Tensor, group: Any, tag: int) -> torch.Tensor:
    """Exchange a tensor with the other rank of a group of two.

    The first rank sends, then receives; the second the other way round. Sends of gloo wait for the
    receive of their tag, so ranks that are at different layers wait for each other.
    """
    other = torch.empty_like(x)
    own = dist.get_group_rank(group, dist.get_rank())
    peer = dist.get_global_rank(group, 1 - own)
    if own == 0:
        dist.send(x, dst=peer, tag=tag)
    dist.recv(other, src=peer, tag=tag)
    if own == 1:
        dist.send(x, dst=peer, tag=tag)
    return other


class ColumnLinear(nn.Module):
    """A linear layer of which every rank holds a part of the outputs."""

    def __init__(self, linear: nn.Module, group: Any, *, gather: bool) -> None:
        super().__init__()
        self.group, self.gather = group, gather
        weight, bias = _weights(linear)
        parts, own = dist.get_world_size(group), dist.get_group_rank(group, dist.get_rank())
        self.weight = nn.Parameter(weight.chunk(parts)[own].clone())
        self.bias = None if bias is None else nn.Parameter(bias.chunk(parts)[own].clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.linear(CopyToRanks.apply(x, self.group), self.weight, self.bias)
        return GatherRanks.apply(y, self.group, -1) if self.gather else y


class RowLinear(nn.Module):
    """A linear layer of which every rank holds a part of the inputs."""

    def __init__(self, linear: nn.Module, group: Any) -> None:
        super().__init__()
        self.group = group
        weight, bias = _weights(linear)
        parts, own = dist.get_world_size(group), dist.get_group_rank(group, dist.get_rank())
        self.weight = nn.Parameter(weight.chunk(parts, dim=1)[own].clone())
        self.bias = None if bias is None else nn.Parameter(bias.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = AddRanks.apply(functional.linear(x, self.weight), self.group)
        return y if self.bias is None else y + self.bias


class ColumnConv(nn.Module):
    """A convolution of which every rank holds a part of the output channels.

    Args:
        conv: The whole convolution.
        group: Group of the ranks that share it.
        tag: Tag of its messages; None for collectives of the group.
    """

    def __init__(self, conv: nn.Conv2d, group: Any, tag: int | None = None) -> None:
        super().__init__()
        self.group, self.stride, self.padding = group, conv.stride, conv.padding
        self.tag = tag
        parts, own = dist.get_world_size(group), dist.get_group_rank(group, dist.get_rank())
        self.weight = nn.Parameter(conv.weight.data.chunk(parts)[own].clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.tag is None:
            x = CopyToRanks.apply(x, self.group)
        else:
            x = CopyToPeer.apply(x, self.group, 2 * self.tag)
        y = functional.conv2d(x, self.weight, None, self.stride, self.padding)
        if self.tag is None:
            return GatherRanks.apply(y, self.group, 1)
        return GatherPeers.apply(y, self.group, 2 * self.tag + 1)


def split_branches(model: nn.Module, tensor: Any, branches: Sequence[Any]) -> None:
    """Split the convolutions of branches that stand side by side; the others use ``tensor``.

    Args:
        model: The model, changed in place.
        tensor: Process group of the tensor parallelism.
        branches: A group for each branch of a block; empty for messages, which have a tag of their
            own for each convolution and direction.
    """
    for number, (name, module) in enumerate(list(model.named_modules()), 1):
        if not isinstance(module, nn.Conv2d):
            continue
        found = re.search(r"\.branches\.(\d+)\.", name)
        if not branches:
            _put(model, name, ColumnConv(module, tensor, number))
        else:
            group = branches[int(found[1])] if found else tensor
            _put(model, name, ColumnConv(module, group))


def split(
    model: nn.Module, group: Any, pairs: Iterable[tuple[str, str]], singles: Iterable[str]
) -> None:
    """Replace the layers of a model whose names end as given by their parts.

    Args:
        model: The model, changed in place.
        group: Process group of the tensor parallelism; one rank leaves the model alone.
        pairs: Ends of the names of two linear layers around an activation.
        singles: Ends of the names of linear layers and convolutions that stand alone.
    """
    if dist.get_world_size(group) == 1:
        return
    first = tuple(one for one, _ in pairs)
    second = tuple(two for _, two in pairs)
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Conv2d):
            if name.endswith(tuple(singles)):
                _put(model, name, ColumnConv(module, group))
        elif not hasattr(module, "weight") or getattr(module.weight, "dim", int)() != 2:
            continue
        elif name.endswith(first):
            _put(model, name, ColumnLinear(module, group, gather=False))
        elif name.endswith(second):
            _put(model, name, RowLinear(module, group))
        elif name.endswith(tuple(singles)):
            _put(model, name, ColumnLinear(module, group, gather=True))


def _weights(linear: nn.Module) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return weight (outputs, inputs) and bias; GPT-2's Conv1D keeps the transpose."""
    weight = linear.weight.data
    if type(linear).__name__ == "Conv1D":
        weight = weight.t()
    return weight, None if linear.bias is None else linear.bias.data


def _put(model: nn.Module, name: str, module: nn.Module) -> None:
    head, _, tail = name.rpartition(".")
    parent = model.get_submodule(head) if head else model
    setattr(parent, tail, module)
