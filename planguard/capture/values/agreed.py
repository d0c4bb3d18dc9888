"""Which small tensors hold a value that all ranks share, because a collective gave it to them.

A program that decides on such a value takes the same branch on every rank. The mark stands on the
storage, with the version of the tensor at that time: what is written into it later is no longer
agreed. Views share both. What is computed from agreed values and plain numbers is agreed as well,
as far as it is small and made by one of the methods below.

Sources: an all_reduce gives every rank the same bits (gloo's and NCCL's rings and trees reduce a
part once and hand the result on: gloo docs/algorithms.md, "allreduce"), a broadcast and an
all_gather copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST = 64
"""Elements of a tensor that somebody may decide on; larger ones are data and are left alone."""
SYMMETRIC = frozenset(
    {
        "allreduce", "allreduce_coalesced", "broadcast", "allgather", "_allgather_base",
        "all_gather_single", "allgather_into_tensor_coalesced", "all_gather_single_coalesced",
    }
)  # fmt: skip
"""Methods of a process group that give every member the same result, in their first argument."""
HANDING_ON = (
    "__lt__", "__le__", "__gt__", "__ge__", "__truediv__", "__add__", "__sub__", "__mul__",
    "div", "mean", "sum", "max", "min", "any", "all", "float", "cpu", "clone", "isfinite", "isnan",
)  # fmt: skip
"""Methods of a tensor whose result is as agreed as what they are given."""


def results_of(name: str, args: tuple[Any, ...]) -> list[Any]:
    """Return the small tensors that a call leaves equal on all members of its group."""
    if name not in SYMMETRIC or not args:
        return []
    return [tensor for tensor in _tensors_in(args[0]) if tensor.numel() <= MOST]


def _tensors_in(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        return [one for inner in value for one in _tensors_in(inner)]
    return [value] if hasattr(value, "numel") else []


_live: set[int] = set()
"""Marks whose storage is alive. Most of a job there is none: its steps then ask nothing further."""


class _Mark:
    """The version that a storage's tensor had when all ranks shared its value; dies with it."""

    __slots__ = ("version",)

    def __init__(self, version: int) -> None:
        self.version = version
        _live.add(id(self))

    def __del__(self) -> None:
        _live.discard(id(self))


_waiting: list[Callable[[], None]] = []
"""What begins to hand marks on, until there is a first one."""


def agree(tensors: Iterable[Any]) -> None:
    """Say that all ranks share the values of these tensors as they are now."""
    while _waiting:
        _waiting.pop()()
    for tensor in tensors:
        try:
            storage = tensor.untyped_storage()
            if storage.nbytes() <= tensor.numel() * tensor.element_size():
                storage.planguard_agreed = _Mark(tensor._version)  # noqa: SLF001 - torch has no other
        except (RuntimeError, NotImplementedError):  # no storage, or made in inference mode
            continue


def is_agreed(tensor: Any) -> bool:
    """Tell whether all ranks share the value of a tensor."""
    if not _live:
        return False
    try:
        known = getattr(tensor.untyped_storage(), "planguard_agreed", None)
        return known is not None and bool(known.version == tensor._version)  # noqa: SLF001 - same
    except (RuntimeError, NotImplementedError):
        return False


def watch_agreed(replace: Callable[[Any, str, Any], None]) -> None:
    """Hand the mark on through what programs compute of a value before they decide on it.

    Nothing is replaced before there is a mark: an optimizer divides once for every parameter.

    Args:
        replace: Called with owner, name and the new method.
    """
    from torch import Tensor

    # Closures: beside a step that computes, each look-up in a module misses the processor's caches.
    live, most, size = _live, MOST, Tensor.numel

    def handing_on(original: Any) -> Any:
        def method(tensor: Any, *args: Any, **options: Any) -> Any:
            found = original(tensor, *args, **options)
            if not live or type(found) is not Tensor or size(found) > most:
                return found
            if is_agreed(tensor):
                given = (*args, *options.values())
                others = [one for one in given if isinstance(one, Tensor)]
                if all(map(is_agreed, others)):
                    agree([found])
            return found

        method.__name__ = original.__name__
        return method

    def begin() -> None:
        for name in HANDING_ON:
            replace(Tensor, name, handing_on(getattr(Tensor, name)))

    _waiting[:] = [begin]
