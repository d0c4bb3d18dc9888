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

_MASKED = frozenset({"masked_select", "nonzero", "argwhere", "where", "__getitem__"})
_NAMES = {"masked_select": "mask", "repeat_interleave": "repeats", "where": "condition"}
"""The argument whose values give the size, where it is not ``input``."""
SIZING = (
    "masked_select", "nonzero", "argwhere", "unique", "unique_consecutive", "repeat_interleave",
    "bincount",
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
                    held[at] = _changed(name, held[at], is_most=is_most)
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
        patch(torch, name, made)
        patch(torch.Tensor, name, made)
    patch(torch, "where", made)
    patch(torch.Tensor, "__getitem__", indexed)


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


def _changed(name: str, given: Any, *, is_most: bool) -> Any:
    """Return other values of the same kind, by which as much as can be is kept, or as little.

    Values that come back stay among those that there are: a class may be an index.
    """
    import torch

    if name in _MASKED:
        return (torch.ones_like if is_most else torch.zeros_like)(given)
    if is_most or not given.numel():
        return given + 1 if name == "repeat_interleave" else given
    if name == "repeat_interleave":
        return torch.zeros_like(given)
    first = given.reshape(-1)[:1] if name != "bincount" else given.min()
    return first.expand(given.numel()).reshape(given.shape)
