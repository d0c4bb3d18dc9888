"""Sizes that follow from data: the rows that a mask keeps, the places of what is not zero.

How many there are is a number of a rank's own, as a loss is (``own_values``), though no value is
read: ``len(x[x > 2])``, a shape, a walk over the rows, the length of what is sent. So the lines
that make such tensors are kept with those that read values. In a further play some ranks keep all
rows there and the others none: what they are given is changed, and not the result, so that values,
shapes and gradients fit each other.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from planguard.capture.values.made_up import is_marked

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_OVERFLOW = "_amp_foreach_non_finite_check_and_unscale_"
_MASKED = frozenset({"masked_select", "nonzero", "argwhere", "where", "__getitem__", "to_sparse"})
_CLASSES = {"bincount": ("minlength", 2), "one_hot": ("num_classes", 1)}
"""What counts classes up to the largest one there is, with the argument that says how many."""
_BEYOND = 3
"""By how many classes another rank has more."""
_NAMES = {
    "masked_select": "mask", "repeat_interleave": "repeats", "where": "condition",
    "one_hot": "tensor",
}  # fmt: skip
"""The argument whose values give the size, where it is not ``input``."""
SIZING = (
    "masked_select", "nonzero", "argwhere", "unique", "unique_consecutive", "repeat_interleave",
    "bincount", "one_hot", "to_sparse",
)  # fmt: skip
"""Functions of ``torch`` and methods of tensors whose results have a size by values."""


def watch_sizes(
    patch: Callable[[Any, str, Callable[[Any], Any]], None],
    ask: Callable[[Any, FrameType], bool | None],
) -> None:
    """Let the lines that make tensors of sizes that follow from data be seen.

    Args:
        patch: Puts another function in the place of one that a class or module has.
        ask: Given the tensor whose values decide, and who asks: whether as much as can be is kept,
            or as little; None for what there is.
    """
    import torch

    def made(original: Any) -> Any:
        name = original.__name__

        def make(*args: Any, **options: Any) -> Any:
            given = list(args)
            held, at = _deciding(name, given, options)
            if at is not None and not is_marked(held[at]):
                is_most = ask(held[at], sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
                if is_most is not None:
                    room = _classes(name, given, options)
                    held[at] = _changed(name, held[at], is_most=is_most, room=room)
            return original(*given, **options)

        make.__name__ = name
        return make

    def indexed(original: Any) -> Any:
        def get(tensor: Any, index: Any) -> Any:
            parts = index if isinstance(index, tuple) else (index,)
            if any(_is_mask(one) and not is_marked(one) for one in parts):
                frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
                index = tuple(_other_mask(one, ask, frame) for one in parts)
            return original(tensor, index)

        return get

    for name in SIZING:
        for owner in (torch, torch.Tensor, torch.nn.functional):
            if hasattr(owner, name):
                patch(owner, name, made)
    patch(torch, "where", made)
    patch(torch.Tensor, "__getitem__", indexed)
    patch(torch, _OVERFLOW, lambda original: _scaled(original, ask))


def _scaled(original: Any, ask: Callable[[Any, FrameType], bool | None]) -> Any:
    """Let a gradient scaler find gradients that are not finite, or none of them.

    What it finds decides whether it steps, and its scale: it writes it where it was told to. The
    ranks that find the same by ``_finding_alike`` are one side.
    """
    import torch
    import torch.distributed as dist

    def unscale(grads: Any, found: Any, *args: Any) -> Any:
        result = original(grads, found, *args)
        frame = sys._getframe(1)  # noqa: SLF001 - same
        alike = _finding_alike(grads, frame.f_locals.get("self"))
        own = [one for one in grads if not is_marked(one)]
        if alike is not None:
            own = [torch.tensor(alike)] if len(alike) < dist.get_world_size() else []
        is_most = ask(own, frame) if own else None
        if is_most is not None:
            found.fill_(float(is_most))
        return result

    return unscale


def _finding_alike(grads: Any, scaler: Any) -> list[int] | None:
    """Return the ranks that find the same as this one whatever the gradients are.

    A ``ShardedGradScaler`` reduces what it found over its process group. What is found in DTensors
    is reduced over the dimensions of the mesh on which the first gradient is not replicated (torch
    2.13, distributed/tensor/_dispatch.py, ``found_inf_reduce_handler``); on the others ranks find
    the same only where every gradient is replicated there, and ranks beside the mesh find by
    themselves.

    Returns:
        None for a scaler that reduces nothing, of gradients that are no DTensors.
    """
    import torch.distributed as dist
    from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    if isinstance(scaler, ShardedGradScaler):
        return list(dist.get_process_group_ranks(scaler.process_group))
    mesh = getattr(grads[0], "device_mesh", None) if grads else None
    if mesh is None:
        return None
    ranks, here = mesh.mesh, mesh.get_coordinate()
    for dim, row in reversed(list(enumerate(zip(*(one.placements for one in grads), strict=True)))):
        if row[0].is_replicate() and not all(one.is_replicate() for one in row):
            ranks = ranks.select(dim, here[dim])
    found: list[int] = ranks.reshape(-1).tolist()
    return found


def _deciding(name: str, args: list[Any], options: dict[str, Any]) -> tuple[Any, Any]:
    """Return where the tensor stands whose values give the size of a result.

    Returns:
        The arguments by place or by name, and its place or name; None in its place where no values
        give a size (``where`` of three, ``repeat_interleave`` by a number).
    """
    import torch

    place = 1 if name in ("masked_select", "repeat_interleave") else 0
    if name == "where" and len(args) + len(options) != 1:
        return args, None
    if name == "repeat_interleave" and len(args) == 1 and not options:
        place = 0  # the counts alone
    key = _NAMES.get(name, "input")
    found, at = (args, place) if place < len(args) else (options, key)
    given = args[place] if place < len(args) else options.get(key)
    return found, at if isinstance(given, torch.Tensor) else None


def _is_mask(index: Any) -> bool:
    import torch

    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def _other_mask(index: Any, ask: Callable[[Any, FrameType], bool | None], frame: FrameType) -> Any:
    if not _is_mask(index) or is_marked(index):
        return index
    is_most = ask(index, frame)
    return index if is_most is None else _changed("__getitem__", index, is_most=is_most)


def _classes(name: str, args: list[Any], options: dict[str, Any]) -> int:
    """Return how many classes a call names itself; 0 for none."""
    key, place = _CLASSES.get(name, ("", len(args)))
    given = args[place] if place < len(args) else options.get(key, 0)
    return max(given, 0) if isinstance(given, int) else 0


def _changed(name: str, given: Any, *, is_most: bool, room: int = 0) -> Any:
    """Return other values of the same kind, by which as much as can be is kept, or as little.

    Values that come back stay among those that there are: a class may be an index. Classes stay
    below the number of them that the program names.
    """
    import torch

    if name in _MASKED:
        return (torch.ones_like if is_most else torch.zeros_like)(given)
    if name in _CLASSES and is_most and given.numel() and not room:
        return torch.where(given == given.max(), given + _BEYOND, given)
    if is_most or not given.numel():
        return given + 1 if name == "repeat_interleave" else given
    if name == "repeat_interleave":
        return torch.zeros_like(given)
    first = given.reshape(-1)[:1] if name not in _CLASSES else given.min()
    return first.expand(given.numel()).reshape(given.shape)
