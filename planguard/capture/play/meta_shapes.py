"""Shapes of results that are not computed: what torch's meta kernels say, and memory in them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from planguard.capture.values.made_up import listed, tensor_class

if TYPE_CHECKING:
    from collections.abc import Iterator

SPARED = 1 << 16
"""Elements from which a result is left as the memory is, never to be written."""


def tensors_of(args: Any) -> Iterator[Any]:
    """Give the tensors among arguments, lists opened."""
    return iter(listed(args))


def elements(args: Any) -> int:
    """Return how many elements the tensors among arguments have together."""
    return sum(tensor.numel() for tensor in tensors_of(args))


def key_of(value: Any) -> Any:
    """Return what the shape of a result depends on, of an argument."""
    if isinstance(value, tensor_class()):
        return (tuple(value.shape), value.stride(), value.dtype, value.device.type)
    if isinstance(value, (list, tuple)):
        return tuple(key_of(one) for one in value)
    if isinstance(value, dict):
        return tuple((name, key_of(one)) for name, one in value.items())
    return (type(value), str(value))


class Shape:
    """Shape, strides and type of a result."""

    def __init__(self, tensor: Any, device: Any) -> None:
        self.of = (tuple(tensor.shape), tensor.stride(), tensor.dtype, device)
        self.size = tensor.numel()


def on_meta(func: Any, args: Any, kwargs: Any) -> Any:
    """Return the shapes of the results of an operator; None where they depend on values."""
    import torch
    from torch.utils import _pytree as tree

    devices = {tensor.device for tensor in tensors_of((*args, *kwargs.values()))}
    if len(devices) != 1:
        return None
    device = devices.pop()

    def meta(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device="meta"
            )
        return value

    try:
        found = func(*tree.tree_map(meta, args), **tree.tree_map(meta, kwargs))
    except Exception:  # noqa: BLE001 - a kernel that needs values may raise anything
        return None
    leaves = [leaf for leaf in tree.tree_leaves(found) if leaf is not None]
    if not leaves or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return None
    if not all(leaf.is_floating_point() for leaf in leaves):
        return None  # an integer that is made up could be an index
    return tree.tree_map(
        lambda leaf: Shape(leaf, device) if isinstance(leaf, torch.Tensor) else leaf, found
    )


def zeros(shape: Any) -> Any:
    """Return memory of a shape; what is no shape is given back."""
    if not isinstance(shape, Shape):
        return shape
    size, stride, dtype, device = shape.of
    made = _empty()(size, stride, dtype=dtype, device=device)
    # Pages that nobody writes take no memory; small tensors are zeros, so that no noise confuses.
    return made if made.numel() > SPARED else made.zero_()


@cache
def _empty() -> Any:
    import torch

    return torch.empty_strided
