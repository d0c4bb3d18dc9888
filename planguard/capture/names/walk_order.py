"""Gives one rank an order of its own when it walks a set, whatever walks it.

Played ranks share one interpreter and with it the seed of its hashes; real ranks have one each. The
order of a set shows in a loop, a list, ``map``, ``next(iter(s))``, ``pop``, a text, a starred
argument: all ask the type for an iterator. That method of ``set`` and ``frozenset`` is replaced
while a rank is played, so that nothing depends on how the source is written. From Python 3.13 on a
list takes the elements without asking; then what makes one is replaced, too (``made_lists`` for
what is an instruction). CPython only, which is what torch runs on; where a slot is not found, the
block says so.
"""

from __future__ import annotations

import builtins
import ctypes
import functools
import gc
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from planguard.capture.names.made_lists import made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_TP_INIT, _TP_ITER, _TP_REPR = 60, 62, 66  # of typeslots.h
_SCANNED = range(16, 512, 8)
"""Bytes of a type object among which a slot is looked for; iter's is 216 up to 3.14."""
_CALL_BEHIND_INIT = 104
"""Bytes from ``tp_init`` to ``tp_vectorcall`` of a type object."""
LISTS_ASK = sys.version_info < (3, 13)
"""Later versions copy the elements of a set into a list without asking it for an iterator."""
_ITERATED = ((set, _TP_ITER, "__iter__"), (frozenset, _TP_ITER, "__iter__"))
_COPIED = (
    (list, _TP_INIT, "__init__"),
    (set, _TP_REPR, "__repr__"),
    (frozenset, _TP_REPR, "__repr__"),
)
_ORDERED = (int, float, complex, bool)
_HASH = hash  # a played rank has another, which asks here
_HASHED_BY_ADDRESS_UP_TO = (3, 12)
"""Before this version ``None`` is hashed by its address, too."""


def has_own_order(value: Any) -> bool:
    """Tell whether a collection is walked in another order in every process.

    Numbers, and tuples and frozen sets of them, hash alike everywhere; text and bytes by the seed
    of the process, other objects by their address unless their class says otherwise.
    """
    return len(value) > 1 and not all(map(hashes_alike, value))


def hashes_alike(element: Any) -> bool:
    """Tell whether an element has one hash in every process.

    A number of another class does where its hash is that of the plain one (numpy's; of an enum's
    members it is not), a tuple where its class leaves the hash as it is (``torch.Size``).
    """
    kind = type(element)
    if kind in _ORDERED:
        return True
    if element is None:
        return sys.version_info >= _HASHED_BY_ADDRESS_UP_TO
    if isinstance(element, tuple | frozenset):
        own: Any = kind.__hash__
        return own in (tuple.__hash__, frozenset.__hash__) and all(map(hashes_alike, element))
    if isinstance(element, Real):
        plain = int(element) if isinstance(element, Integral) else float(element)
        return _HASH(element) == _HASH(plain)
    return False


@contextmanager
def walked(order: Callable[[list[Any], FrameType | None], list[Any]]) -> Iterator[bool]:
    """Let sets whose order is the process's own be walked in another order, to the end of a block.

    Args:
        order: Called with the elements in their order here, and the frame that walks; returns them
            in the order to walk.

    Yields:
        False where this interpreter has no such slot, or makes lists of sets unseen: then some walk
        is as it is here.
    """
    if any(_offset(number) is None for number in (_TP_ITER, _TP_INIT, _TP_REPR)):
        yield False
        return
    own = Orders(order)
    methods = [*own.walks(), *([] if LISTS_ASK else own.copies())]
    originals = [(kind, name, vars(kind)[name]) for kind, name, _ in methods]
    with ExitStack() as stack:
        stack.callback(_put, originals)
        _put(methods)
        for kind, number, name in (*_ITERATED, *(() if LISTS_ASK else _COPIED)):
            stack.enter_context(_by_method(kind, number, name))
        if LISTS_ASK:
            yield True
            return
        stack.enter_context(_sorting(own))
        yield stack.enter_context(made(own.of_a_set))


@dataclass(frozen=True)
class Orders:
    """The methods that give an order.

    Attributes:
        order: Gives it.
    """

    order: Callable[[list[Any], FrameType | None], list[Any]]

    def of_a_set(self, value: Any, frame: FrameType | None) -> list[Any] | None:
        """Return the elements of a set in the order to take; None for anything else."""
        if type(value) not in (set, frozenset) or not has_own_order(value):
            return None
        return self.order(list_of(_plain(value)), frame)

    def walks(self) -> list[tuple[type, str, Any]]:
        """Return the methods of what asks for an order, one element after the other."""
        order, original_pop, original_keys = self.order, set.pop, vars(dict)["fromkeys"]

        def iterate(value: Any) -> Any:
            if len(value) < 2:
                return _plain(value)
            found = list_of(_plain(value))
            if all(map(hashes_alike, found)):
                return _plain(value)
            ordered = order(found, sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
            return _plain(value) if ordered is found else _walk(value, ordered)

        def pop(value: Any) -> Any:
            if not has_own_order(value):
                return original_pop(value)
            first = order(list_of(_plain(value)), sys._getframe(1))[0]  # noqa: SLF001 - same
            value.remove(first)
            return first

        def fromkeys(kind: Any, keys: Any, value: Any = None) -> Any:
            # A fast path of the interpreter does not ask for an iterator.
            ordered = self.of_a_set(keys, sys._getframe(1))  # noqa: SLF001 - same
            given = keys if ordered is None else ordered
            return original_keys.__get__(None, kind)(given, value)

        iterating = [(kind, "__iter__", iterate) for kind in (set, frozenset)]
        return [*iterating, (set, "pop", pop), (dict, "fromkeys", classmethod(fromkeys))]

    def copies(self) -> list[tuple[type, str, Any]]:
        """Return the methods of what takes the elements of a set straight from its table."""
        places = [(list, "__init__"), (list, "extend"), (list, "__iadd__"), (str, "join")]
        places += [(bytes, "join"), (bytearray, "join")]
        taking = [(kind, name, self.taking(vars(kind)[name])) for kind, name in places]
        return [*taking, *((kind, "__repr__", self._showing(kind)) for kind in (set, frozenset))]

    def taking(self, original: Any) -> Any:
        """Return a method that takes a set as the list of its elements."""

        @functools.wraps(original)
        def take(value: Any, *args: Any, **options: Any) -> Any:
            if len(args) == 1:
                ordered = self.of_a_set(args[0], sys._getframe(1))  # noqa: SLF001 - same
                args = args if ordered is None else (ordered,)
            return original(value, *args, **options)

        return take

    def _showing(self, kind: type) -> Any:
        original = vars(kind)["__repr__"]

        def show(value: Any) -> str:
            ordered = self.of_a_set(value, sys._getframe(1))  # noqa: SLF001 - same
            if ordered is None or original(value).endswith("(...)"):
                return str(original(value))
            said = f"{{{', '.join(map(repr, ordered))}}}"
            return said if kind is set else f"{kind.__name__}({said})"

        return show


@contextmanager
def _sorting(own: Orders) -> Iterator[None]:
    """Let ``sorted`` see an order, which it keeps where it compares nothing."""
    original = builtins.sorted

    @functools.wraps(original)
    def ordered(values: Any, /, **options: Any) -> list[Any]:
        found = own.of_a_set(values, sys._getframe(1))  # noqa: SLF001 - same
        return original(values if found is None else found, **options)

    builtins.sorted = ordered
    try:
        yield
    finally:
        builtins.sorted = original


@contextmanager
def _by_method(kind: type, number: int, name: str) -> Iterator[None]:
    """Let the interpreter find by its name a method of a type that is written in C.

    Args:
        kind: The type; classes that inherit the method from it are changed with it.
        number: The slot that has the method in C.
        name: The name.
    """
    offset = _offset(number) or 0
    own = _slot_value(kind, number)
    by_name = _slot_value(type("ByName", (), {name: lambda *_: None}), number)
    is_list = number == _TP_INIT
    called = _slot(list, offset + _CALL_BEHIND_INIT) if is_list else None
    call = called.value if called is not None else None
    try:
        for one in (kind, *_heirs(kind)):
            if _slot_value(one, number) == own:
                _slot(one, offset).value = by_name
        if called is not None:
            called.value = None  # a shorter way, past the slot
        yield
    finally:
        if called is not None:
            called.value = call
        for one in (kind, *_heirs(kind)):
            # A class made meanwhile takes the slot over; one with a method of its own has it.
            if _slot_value(one, number) == by_name and _defines(one, name) is kind:
                _slot(one, offset).value = own


def _defines(kind: type, name: str) -> type:
    return next(one for one in kind.__mro__ if name in vars(one))


def _plain(value: Any) -> Any:
    return (_SET_ITER if isinstance(value, set) else _FROZEN_ITER)(value)


_SET_ITER, _FROZEN_ITER = set.__iter__, frozenset.__iter__
BETWEEN = _plain.__code__.co_filename
"""The file of the frames that stand between a program and what it gives to be called, as the key
in ``sorted(values, key=id)`` and the function in ``list(map(id, values))``: the caller asks."""


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
    for kind in {kind for kind, _, _ in methods}:  # the interpreter caches methods by the version
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _slot_value(kind: type, number: int) -> int:
    get = ctypes.pythonapi.PyType_GetSlot
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    return int(get(kind, number) or 0)


def _slot(kind: type, offset: int) -> Any:
    return ctypes.c_void_p.from_address(id(kind) + offset)


@cache
def _offset(number: int) -> int | None:
    """Return where a type object keeps a slot, None where that is not told by its contents."""
    if sys.implementation.name != "cpython":
        return None
    wanted = {kind: _slot_value(kind, number) for kind in (set, frozenset, list, dict, tuple)}
    found = [
        at for at in _SCANNED if all(_slot(k, at).value == (v or None) for k, v in wanted.items())
    ]
    return found[0] if len(found) == 1 else None
