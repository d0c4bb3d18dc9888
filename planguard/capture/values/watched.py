"""Numbers that were read from made-up tensors: they know it, and so does what is computed of them.

They are no subclasses of ``int`` and ``float``: C code unpacks those without a call (``range``, a
slice, ``"%d"``, ``struct.pack``), and nobody would notice. What is not a number has to be asked for
one, by ``__index__`` or ``__float__``, and that is a decision unless it is only shown. They look
like numbers to ``isinstance``, compute like them, are taken by torch's functions, and what torch
makes of them is marked. Copies stay watched.
"""

from __future__ import annotations

import math
import operator
import sys
from typing import TYPE_CHECKING, Any

from planguard.capture.values.made_up import mark, tensors_in
from planguard.capture.values.sinks import is_shown_only

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES = frozenset(
    {
        "add", "radd", "iadd", "sub", "rsub", "isub", "subtract", "mul", "rmul", "imul", "multiply",
        "div", "rdiv", "idiv", "truediv", "rtruediv", "itruediv", "true_divide", "divide", "pow",
        "rpow", "ipow", "eq", "ne", "lt", "le", "gt", "ge", "fill", "full", "full_like", "new_full",
        "clamp", "clip", "clamp_min", "clamp_max", "masked_fill", "where", "lerp", "addcmul",
        "addcdiv", "remainder", "fmod", "floordiv", "rfloordiv", "floor_divide", "maximum",
        "minimum", "_foreach_add", "_foreach_sub", "_foreach_mul", "_foreach_div", "_foreach_pow",
        "_foreach_addcmul", "_foreach_addcdiv", "_foreach_lerp",
    }
)  # fmt: skip
"""Functions of torch in which a number is a value: it changes no shape of their results."""


class Watched:
    """A number, and what to tell when it decides something.

    Attributes:
        plain: The number.
        report: Called with the frame that decides.
    """

    __slots__ = ("plain", "report")

    def __init__(self, plain: Any, report: Callable[[Any], None]) -> None:
        object.__setattr__(self, "plain", plain)
        object.__setattr__(self, "report", report)

    @property  # type: ignore[misc]  # isinstance asks for it
    def __class__(self) -> Any:
        return type(self.plain)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = (args, kwargs or {})
        numbers = list(_watched_in(given))
        plain_args, plain_kwargs = plain_of(given)
        name = getattr(func, "__name__", "").strip("_") or "?"
        name = f"_{name}" if name.startswith("foreach") else name
        is_value = name in VALUES or (name == "setitem" and not list(_watched_in(args[1])))
        if not is_value:
            numbers[0].report(sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
        found = func(*plain_args, **plain_kwargs)
        mark(tensors_in(found))
        if func.__name__.endswith("_") and args:  # in place, foreach and dunder alike
            mark(tensors_in(args[0]))
        if not any(True for _ in tensors_in(found)) and name != "setitem":
            return watch(found, numbers[0].report)
        return found

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.plain, name)  # is_integer, bit_length, hex, ...
        self.report(sys._getframe(1))  # noqa: SLF001 - same
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self.plain).__name__!r} object has no attribute {name!r}")

    def __copy__(self) -> Watched:
        return self

    def __deepcopy__(self, memo: Any) -> Watched:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        frame = sys._getframe(1)  # noqa: SLF001 - same
        if not is_saving(frame):
            self.report(frame)
        return (type(self.plain), (self.plain,))


_WRITING = ("torch.serialization", "safetensors.torch")


def is_saving(frame: Any) -> bool:
    """Tell whether a checkpoint is being written: it is read by another run."""
    while frame is not None:
        if frame.f_globals.get("__name__") in _WRITING:
            return True
        frame = frame.f_back
    return False


def watch(value: Any, report: Callable[[Any], None]) -> Any:
    """Return a value that tells when it decides something; lists are opened."""
    if isinstance(value, (list, tuple)):
        return type(value)(watch(one, report) for one in value)
    if type(value) in (int, float):
        return Watched(value, report)
    return value


def plain_of(value: Any) -> Any:
    """Return the same with plain numbers."""
    if type(value) is Watched:
        return value.plain
    if type(value) in (list, tuple):
        return type(value)(plain_of(one) for one in value)
    if type(value) is dict:
        return {key: plain_of(one) for key, one in value.items()}
    return value


def _watched_in(value: Any) -> Any:
    if type(value) is Watched:
        yield value
    elif type(value) in (list, tuple):
        for one in value:
            yield from _watched_in(one)
    elif type(value) is dict:
        yield from _watched_in(list(value.values()))


def holds_watched(value: Any) -> Watched | None:
    """Return a watched number in an argument, if there is one."""
    return next(_watched_in(value), None)


def _computing(name: str) -> Any:
    function = getattr(operator, name, None)
    mirrored = getattr(operator, f"__{name[3:]}", None) if name.startswith("__r") else None

    def method(self: Watched, *others: Any) -> Any:
        import torch

        values = [plain_of(one) for one in others]
        if any(isinstance(one, torch.Tensor) for one in values):
            return NotImplemented  # torch takes the number, by __torch_function__
        if any(not isinstance(one, (int, float, complex)) for one in values):
            if any(isinstance(one, (str, bytes, list, tuple)) for one in values):
                self.report(sys._getframe(1))  # noqa: SLF001 - [0] * n
            else:
                return NotImplemented
        if name in ("__pow__", "__rpow__") and len(values) > 1:
            found: Any = pow(self.plain, *values)
        elif mirrored is not None and function is None:
            found = mirrored(values[0], self.plain)
        elif function is not None:
            found = function(self.plain, *values)
        else:
            found = getattr(self.plain, name)(*values)
        return watch(found, self.report)

    method.__name__ = name
    return method


def _deciding(name: str) -> Any:
    def method(self: Watched, *others: Any) -> Any:
        self.report(sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
        return getattr(operator, name, None)(self.plain, *map(plain_of, others))  # type: ignore[misc]

    method.__name__ = name
    return method


def _telling(function: Callable[..., Any]) -> Any:
    """Give the plain value away, to print it or not."""

    def method(self: Watched, *others: Any) -> Any:
        frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
        if not is_shown_only(frame):
            self.report(frame)
        return function(self.plain, *others)

    return method


def _array(plain: Any, *_: Any) -> Any:
    import numpy as np

    return np.asarray(plain)


for _name in (
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
    "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__pow__", "__rpow__",
    "__neg__", "__abs__", "__pos__", "__invert__", "__and__", "__rand__", "__or__", "__ror__",
    "__xor__", "__rxor__", "__lshift__", "__rlshift__", "__rshift__", "__rrshift__",
    "__round__", "__trunc__", "__floor__", "__ceil__", "__divmod__", "__rdivmod__",
):  # fmt: skip
    setattr(Watched, _name, _computing(_name))
for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
    setattr(Watched, _name, _deciding(_name))
_TELLING: dict[str, Callable[..., Any]] = {
    "__bool__": bool, "__hash__": hash, "__index__": operator.index, "__int__": int,
    "__float__": float, "__complex__": complex, "__format__": format, "__str__": str,
    "__repr__": repr, "__array__": _array,
}  # fmt: skip
for _name, _function in _TELLING.items():
    setattr(Watched, _name, _telling(_function))

HANDED_ON = ("exp", "log", "log2", "log10", "log1p", "expm1", "sqrt")
"""Functions of ``math`` that are patched so that their result is watched, too."""


def of_math(original: Any) -> Any:
    """Let a function of ``math`` hand on that its argument was made up."""

    def call(*args: Any) -> Any:
        number = holds_watched(args)
        found = original(*plain_of(args))
        return found if number is None else watch(found, number.report)

    return call


def of_json(original: Any) -> Any:
    """Let an encoder of ``json`` write plain numbers; text that is not only shown is told."""

    def encode(self: Any, value: Any, *args: Any, **options: Any) -> Any:
        number = holds_watched(value)
        if number is not None:
            frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
            if not is_shown_only(frame):
                number.report(frame)
            value = plain_of(value)
        return original(self, value, *args, **options)

    return encode


assert all(hasattr(math, name) for name in HANDED_ON)  # noqa: S101 - the list is of this module
