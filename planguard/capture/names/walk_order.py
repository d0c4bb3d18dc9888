"""Gives one rank an order of its own when it walks a set, whatever walks it.

Played ranks share one interpreter and with it the seed of its hashes; real ranks have one each. The
order of a set shows in a loop, a list, ``map``, ``next(iter(s))``, ``pop``, a text, a starred
argument: all ask the type for an iterator. That slot of ``set`` and ``frozenset`` is replaced while
a rank is played, so that nothing depends on how the source is written. CPython only, which is what
torch runs on; where the slot is not found, the block says so.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_TP_ITER = 62  # Py_tp_iter of typeslots.h
_SCANNED = range(16, 512, 8)
"""Bytes of a type object among which the slot is looked for; 216 on all builds up to 3.14."""
LISTS_ASK = sys.version_info < (3, 13)
"""Later versions copy the elements of a set into a list without asking it for an iterator."""
_ORDERED = (int, float, complex, bool)
_HASHED_BY_ADDRESS_UP_TO = (3, 12)
"""Before this version ``None`` is hashed by its address, too."""


def has_own_order(value: Any) -> bool:
    """Tell whether a collection is walked in another order in every process.

    Numbers, and tuples and frozen sets of them, hash alike everywhere; text and bytes by the seed
    of the process, other objects by their address unless their class says otherwise.
    """
    return len(value) > 1 and not all(map(hashes_alike, value))


def hashes_alike(element: Any) -> bool:
    """Tell whether an element has one hash in every process."""
    kind = type(element)
    if kind in _ORDERED:
        return True
    if element is None:
        return sys.version_info >= _HASHED_BY_ADDRESS_UP_TO
    return kind in (tuple, frozenset) and all(map(hashes_alike, element))


@contextmanager
def walked(order: Callable[[list[Any], FrameType | None], list[Any]]) -> Iterator[bool]:
    """Let sets whose order is the process's own be walked in another order, to the end of a block.

    Args:
        order: Called with the elements in their order here, and the frame that walks; returns them
            in the order to walk.

    Yields:
        False where this interpreter has no such slot: then every walk is as it is here.
    """
    own, offset = _slot_value(set), _offset()
    if offset is None:
        yield False
        return
    walk = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)
    methods = _methods(order, walk(own))
    hook = walk(methods["__iter__"])  # is kept alive by this frame, which the block's end ends
    address = ctypes.cast(hook, ctypes.c_void_p).value
    # A class that is made meanwhile takes the method by its name, not the slot.
    places: list[tuple[type, str]] = [(set, "pop"), (dict, "fromkeys")]
    places += [(set, "__iter__"), (frozenset, "__iter__")]
    originals = [(kind, name, vars(kind)[name]) for kind, name in places]
    changed = [kind for kind in _sets() if _slot_value(kind) == own]
    try:
        for kind in changed:
            _slot(kind, offset).value = address
        _put([(kind, name, methods[name]) for kind, name in places])
        yield True
    finally:
        _put(originals)
        for kind in {*changed, *_sets()}:
            if _slot_value(kind) == address:
                _slot(kind, offset).value = own


def _methods(
    order: Callable[[list[Any], FrameType | None], list[Any]], plain: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return the methods that give an order; ``plain`` gives the interpreter's."""
    original_pop, original_keys = set.pop, vars(dict)["fromkeys"]

    def iterate(value: Any) -> Any:
        # An exception that leaves a callback of ctypes is lost: nothing here may raise.
        if len(value) < 2:
            return plain(value)
        found = list_of(plain(value))
        if all(map(hashes_alike, found)):
            return plain(value)
        try:
            ordered = order(found, sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
        except Exception:  # noqa: BLE001 - see above
            return plain(value)
        return plain(value) if ordered is found else _walk(value, ordered)

    def pop(value: Any) -> Any:
        if not has_own_order(value):
            return original_pop(value)
        first = order(list_of(plain(value)), sys._getframe(1))[0]  # noqa: SLF001 - same
        value.remove(first)
        return first

    def fromkeys(kind: Any, keys: Any, value: Any = None) -> Any:
        given = keys  # a fast path of the interpreter does not ask for an iterator
        if isinstance(keys, set | frozenset) and has_own_order(keys):
            given = order(list_of(plain(keys)), sys._getframe(1))  # noqa: SLF001 - same
        return original_keys.__get__(None, kind)(given, value)

    return {"__iter__": iterate, "pop": pop, "fromkeys": classmethod(fromkeys)}


def list_of(iterator: Any) -> list[Any]:
    """Return what an iterator gives; ``list(a_set)`` would ask for an order."""
    return [*iterator]


def _walk(value: Any, ordered: list[Any]) -> Any:
    """Give elements one by one; a set that changes meanwhile raises as it does otherwise."""
    for one in ordered:
        if len(value) != len(ordered):
            raise RuntimeError("Set changed size during iteration")
        yield one


def _heirs(kind: type) -> list[type]:
    below: list[type] = type.__subclasses__(kind)
    return below + [further for one in below for further in _heirs(one)]


def _put(methods: list[tuple[type, str, Any]]) -> None:
    """Give types that are written in C other methods."""
    for kind, name, method in methods:
        gc.get_referents(kind.__dict__)[0][name] = method
    for kind in (*_sets(), dict):  # the interpreter caches methods by the version of a type
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _sets() -> list[type]:
    return [set, frozenset, *_heirs(set), *_heirs(frozenset)]


def _slot_value(kind: type) -> int:
    get = ctypes.pythonapi.PyType_GetSlot
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    return int(get(kind, _TP_ITER) or 0)


def _slot(kind: type, offset: int) -> Any:
    return ctypes.c_void_p.from_address(id(kind) + offset)


@cache
def _offset() -> int | None:
    """Return where a type object keeps the slot, None where that is not told by its contents."""
    if sys.implementation.name != "cpython":
        return None
    wanted = {kind: _slot_value(kind) for kind in (set, frozenset, list, dict, tuple)}
    found = [at for at in _SCANNED if all(_slot(k, at).value == v for k, v in wanted.items())]
    return found[0] if len(found) == 1 else None
