"""Which tensors hold values that a real run would not have: marked on their storage.

Results that were not computed, what a stubbed call brings, and all that is computed from either.
Views share the mark; operators hand it on (``compute_stub``), and messages do (``mailbox``).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def mark(tensors: Iterable[Any]) -> None:
    """Say that the values of these tensors are made up."""
    for tensor in tensors:
        storage = storage_of(tensor)
        if storage is not None:
            storage.planguard_made_up = True


def unmark(tensor: Any) -> None:
    """Say that all values of a tensor, and with it of its storage, were written anew."""
    storage = storage_of(tensor)
    if storage is not None and storage.nbytes() == tensor.numel() * tensor.element_size():
        storage.planguard_made_up = False


def expect(tensors: Iterable[Any], change: int) -> None:
    """Count communications under way that will write into these tensors."""
    for tensor in tensors:
        storage = storage_of(tensor)
        if storage is not None:
            storage.planguard_expects = getattr(storage, "planguard_expects", 0) + change


def is_marked(tensor: Any) -> bool:
    """Tell whether the values of a tensor are made up; true where that cannot be known.

    What a communication that nobody has waited for will write is not there yet, either.
    """
    storage = storage_of(tensor)
    if storage is None:
        return True
    if getattr(storage, "planguard_expects", 0) > 0:
        return True
    return getattr(storage, "planguard_made_up", False)


def note_unwritten(tensor: Any) -> None:
    """Say that nobody has written into the memory of a tensor yet."""
    storage = storage_of(tensor)
    if storage is not None:
        storage.planguard_unwritten = tensor._version  # noqa: SLF001 - torch has no other


def is_unwritten(tensor: Any) -> bool:
    """Tell whether nobody seems to have written into a tensor: what lies there are no values.

    Who takes what was written for unwritten must mark what is made of it.
    """
    known = getattr(storage_of(tensor), "planguard_unwritten", None)
    return known is not None and bool(known == tensor._version)  # noqa: SLF001 - same


def holds_marked(args: Iterable[Any]) -> bool:
    """Tell whether the values of some tensor among arguments are made up, lists opened.

    The same as to ask ``tensors_in``, for every operator of a job, and so without generators.
    """
    base = _plain()[0]
    for arg in args:
        if isinstance(arg, base):
            if is_marked(arg):
                return True
        elif isinstance(arg, (list, tuple)):
            if holds_marked(arg):
                return True
        elif isinstance(arg, dict) and holds_marked(arg.values()):
            return True
    return False


def tensors_in(args: Any) -> Iterator[Any]:
    """Return the tensors of arguments or results, lists opened."""
    return iter(listed(args))


def listed(args: Any) -> list[Any]:
    """Return the tensors of arguments or results in a list, which is asked for every operator."""
    base = _plain()[0]
    if isinstance(args, base):
        return [args]
    found: list[Any] = []
    if isinstance(args, (list, tuple, dict)):
        _collect(args, base, found)
    return found


def _collect(args: Any, base: Any, found: list[Any]) -> None:
    for arg in list(args.values()) if isinstance(args, dict) else args:
        if isinstance(arg, base):
            found.append(arg)
        elif isinstance(arg, (list, tuple, dict)):
            _collect(arg, base, found)


def storage_of(tensor: Any) -> Any:
    """Return the storage, None for a wrapper such as DTensor, whose parts are elsewhere."""
    local = None if type(tensor) in _plain() else getattr(tensor, "_local_tensor", None)
    try:
        return _plain()[0].untyped_storage(tensor if local is None else local)
    except (RuntimeError, NotImplementedError):  # sparse and other kinds have none
        return None


def tensor_class() -> Any:
    """Return the class of all tensors."""
    return _plain()[0]


@cache
def _plain() -> tuple[Any, Any, Any]:
    """Return the class below ``Tensor``, whose methods tell nobody, and those that wrap nothing.

    Asked for every operator: what is imported in a function is looked up at each call.
    """
    import torch
    from torch._C import TensorBase

    return TensorBase, torch.Tensor, torch.nn.Parameter
