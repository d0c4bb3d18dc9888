"""What small tensors were made of, and who has the same: kept on their storage, handed on.

A flag or a count may be the same on all ranks by luck; what it was made of tells whether it is. The
fingerprint of a tensor that was made of nothing is that of what it holds. A message tells those of
its tensors, and what a collective brings is made of all that its members gave: a flag that each
pair of ranks reduces may be raised in one pair only, while one that is reduced along both sides of
a mesh, one after the other, is the same everywhere.
"""

from __future__ import annotations

import ctypes
import zlib
from itertools import repeat
from typing import TYPE_CHECKING, Any

from planguard.capture.values.made_up import listed, storage_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COMMON, TOLD, FIRST = 1, 2, 4
"""Of a reading: it was made of nothing but what a collective brought to all ranks; peers know it;
the first bit of its fingerprint."""
MOST_ELEMENTS = 64
"""Elements of a tensor that somebody may decide on; larger ones are data."""
OVERWRITING = frozenset({"copy_", "fill_", "zero_"})
"""Operators that leave nothing of what their first argument was."""
_MOST_HASHED = 1024
"""Elements of a tensor that tell what it holds."""


def tell(tensors: Iterable[Any], *, is_sent: bool) -> None:
    """Say that peers know the values of these tensors, which a rank sends or has received.

    A floating-point number that is sent stays a rank's own: a loss that is reduced for the log may
    have been read, and decided on, before.
    """
    for tensor in tensors:
        whole = is_whole(tensor)
        storage = storage_of(tensor) if whole or not is_sent else None
        if storage is None:
            continue
        storage.planguard_told = True
        for row, at in getattr(storage, "planguard_readings", ()):
            row[at] |= TOLD


def made_from(tensor: Any) -> int:
    """Return a fingerprint of what a tensor was made of, of what it holds where that is its own."""
    return getattr(storage_of(tensor), "planguard_origin", None) or content_of(tensor)


def arrived(
    tensors: Iterable[Any], *, origins: Iterable[int | None] = repeat(None), is_common: bool
) -> None:
    """Say that a communication wrote into these tensors: what they held counts no more.

    Args:
        tensors: What it brought.
        origins: What each was made of, None for what all ranks have.
        is_common: It brought the same to all ranks.
    """
    for tensor, origin in zip(tensors, origins, strict=False):
        storage = storage_of(tensor)
        if storage is not None:
            storage.planguard_origin, storage.planguard_common = origin, is_common


def hand_on(namespace: str, name: str, args: Any, kwargs: Any, found: Any) -> None:
    """Keep of a small result what it was made of, and whether peers know it.

    A truth value or a count may be the same on all ranks by luck, so that it is told by what it was
    made of. Of integers that peers know, they know what is made of them, too. The functional
    collectives work on copies: what they are given is known to peers as well.
    """
    if namespace == "_c10d_functional":
        is_giving = not any(one in name for one in ("reduce", "wait", "wrap"))
        if is_giving and _has_peers(args, kwargs):
            tell(tensors_in([args, kwargs]), is_sent=True)
        return
    for one in listed(found):
        is_large = one.numel() > MOST_ELEMENTS
        if is_large and not is_whole(one):
            continue
        given = listed([args[1:] if name in OVERWRITING else args, kwargs])
        origins = [getattr(storage_of(each), "planguard_origin", None) for each in given]
        storage = storage_of(one)
        if storage is None or not given:
            continue
        storage.planguard_common = all(map(is_common, given))
        if not is_whole(one) and not (any(origins) and _is_counted(one)):
            storage.planguard_origin = None  # fractions tell by themselves whether they are alike
            continue
        told = [getattr(storage_of(each), "planguard_told", False) for each in given]
        # Large ones are data: of what a rank was given to work on peers need not know anything.
        if not is_large and any(a and is_whole(b) for a, b in zip(told, given, strict=True)):
            storage.planguard_told = True
        numbers = list(_numbers([args, kwargs]))
        parts = [o or content_of(each) for o, each in zip(origins, given, strict=True)]
        storage.planguard_origin = zlib.crc32(repr((parts, numbers)).encode())


def _has_peers(args: Any, kwargs: Any) -> bool:
    """Tell whether a functional collective is of several ranks.

    The group is the last that it is given by place, its name or itself (schemas of
    ``_c10d_functional``, torch 2.13).
    """
    from torch.distributed.distributed_c10d import _resolve_process_group

    group = kwargs.get("group_name", args[-1] if args else "")
    group = _resolve_process_group(group) if isinstance(group, str) else group
    return bool(group.size() > 1)


def _numbers(given: Any) -> Iterator[float]:
    """Return the numbers among arguments, lists opened."""
    if isinstance(given, int | float):
        yield given
    elif isinstance(given, dict):
        yield from _numbers(list(given.values()))
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _numbers(one)


def is_common(tensor: Any) -> bool:
    """Tell whether a collective of all ranks brought what a tensor holds."""
    return bool(getattr(storage_of(tensor), "planguard_common", False))


def _is_counted(tensor: Any) -> bool:
    """Tell whether all elements of a small tensor are whole numbers: flags, or counts."""
    try:
        return bool((tensor == tensor.round()).all())
    except (RuntimeError, NotImplementedError):  # no values
        return True


def content_of(tensor: Any) -> int:
    """Return a fingerprint of what a tensor holds, of a large one of some elements.

    A wrapper such as DTensor has no memory of its own, and what is asked of it may communicate:
    its parts on this rank are looked at.
    """
    parts = getattr(tensor, "__tensor_flatten__", None)
    if parts is not None:
        held = [content_of(one) for one in tensors_in([getattr(tensor, n) for n in parts()[0]])]
        return zlib.crc32(repr(held).encode())
    try:
        flat = tensor.detach().reshape(-1)
        flat = flat[:: max(1, flat.numel() // _MOST_HASHED)].cpu().contiguous()
        size = flat.numel() * flat.element_size()
        # Not by numpy: a tensor whose memory it has seen can no longer be made larger.
        return zlib.crc32(ctypes.string_at(flat.data_ptr(), size) if size else b"")
    except (RuntimeError, NotImplementedError):  # no values
        return 0


def is_whole(tensor: Any) -> bool:
    """Tell whether a tensor holds whole numbers or truth values."""
    return not (tensor.is_floating_point() or tensor.is_complex())
