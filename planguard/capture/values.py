"""Notices when the program decides something on a value that is not real under capture.

What a stubbed collective returns is made up, so a number read from a tensor may be wrong. Printing
it is harmless; comparing it, using it as an index or as a truth value may change what the rank
issues next. Numbers read by ``item()``, ``tolist()``, ``int()`` and ``float()`` therefore remember
where they come from, where Python lets them. Where it does not (``int()``, arrays of numpy), the
reading itself is reported. Where a tensor holds no values at all (fake tensors), zeros are read.
"""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from planguard.capture.made_up import is_marked, tensors_in
from planguard.capture.rank_reads import is_library
from planguard.capture.recorder import call_site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.capture.recorder import Recorder

KIND = "data-dependent-value"
_TELLING = (
    "__bool__", "__int__", "__float__", "__index__", "__contains__", "equal", "allclose",
    "is_nonzero", "numpy", "__array__",
)  # fmt: skip
"""Methods of tensors that give a plain value away."""


@contextmanager
def watch_values(recorder: Recorder) -> Iterator[None]:
    """Watch what reads the values of tensors, after the first communication or stubbed operator."""
    import torch

    def reading(original: Any) -> Any:
        return _reading(original, recorder)

    def deciding(original: Any) -> Any:
        return _deciding(original, recorder)

    undo = [_patch(torch.Tensor, name, reading) for name in ("item", "tolist")]
    undo += [_patch(torch.Tensor, name, deciding) for name in _TELLING]
    undo += [_patch(torch, name, deciding) for name in ("equal", "allclose", "is_nonzero")]
    undo += [_patch(math, name, _of_number) for name in ("isnan", "isinf", "isfinite")]
    try:
        yield
    finally:
        for restore in undo:
            restore()


def _patch(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Callable[[], None]:
    original = getattr(owner, name)
    inherited = name not in vars(owner)
    setattr(owner, name, wrap(original))

    def restore() -> None:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)

    return restore


def _reading(original: Any, recorder: Recorder) -> Any:
    def read(tensor: Any) -> Any:
        place = _outside(2)
        value = _value(original, recorder, place, tensor)
        return _watched(value, recorder, place) if place and _doubtful(recorder, tensor) else value

    return read


def _deciding(original: Any, recorder: Recorder) -> Any:
    def decide(*args: Any, **options: Any) -> Any:
        place = _outside(2)
        if place and any(_doubtful(recorder, one) for one in tensors_in(args)):
            _report(recorder, place)
        return _value(original, recorder, place, *args, **options)

    return decide


def _doubtful(recorder: Recorder, tensor: Any) -> bool:
    """Tell whether a value may be other than in a real run."""
    return recorder.is_fake or is_marked(tensor)


def _value(original: Any, recorder: Recorder, place: str | None, *args: Any, **options: Any) -> Any:
    """Read a value; one that does not exist, of a fake tensor, is a zero and never a silent one."""
    before, recorder.is_watched = recorder.is_watched, place is not None
    try:
        return original(*args, **options)
    except Exception as error:
        if type(error).__name__ not in _VALUELESS or not args:
            raise
        if place is None:
            report_values(recorder)
        return _zero(original, args[0])
    finally:
        recorder.is_watched = before


_VALUELESS = ("DataDependentOutputException", "GuardOnDataDependentSymNode")


def _zero(original: Any, tensor: Any) -> Any:
    """Return the zero that a reading of a tensor without values gives."""
    name = original.__name__
    if name == "tolist":
        return _zeros(list(tensor.shape), 0.0 if tensor.is_floating_point() else 0)
    if name in ("item", "__float__", "__int__", "__index__"):
        whole = name in ("__int__", "__index__") or not (
            tensor.is_floating_point() or name == "__float__"
        )
        return 0 if whole else 0.0
    return False


def _zeros(shape: list[int], zero: float) -> Any:
    return [_zeros(shape[1:], zero) for _ in range(shape[0])] if shape else zero


def report_values(recorder: Recorder) -> None:
    """Report that torch itself, or another library, read a value that was made up."""
    site = call_site()
    _report(recorder, f"{site[0]}:{site[1]}, by an operator" if site else "unknown")


def _outside(depth: int) -> str | None:
    """Return the direct caller as ``file:line`` unless it is a library."""
    frame = sys._getframe(depth)  # noqa: SLF001 - torch or the interpreter has no public way
    file = frame.f_code.co_filename
    return None if is_library(file) else f"{file}:{frame.f_lineno}"


def _report(recorder: Recorder, place: str) -> None:
    message = (
        f"the program decides on a tensor's value at {place}; under capture what other ranks "
        "contribute and what was not computed is made up, so the recorded calls may differ from "
        "the real ones"
    )
    if recorder.is_stalled:
        recorder.give_up()  # what it reads will never be there
    # The real run may issue something else: neither a proof nor a witness holds.
    recorder.note(KIND, message, "under")
    recorder.note(KIND, message, "over")


def _watched(value: Any, recorder: Recorder, place: str) -> Any:
    if isinstance(value, list):
        return [_watched(item, recorder, place) for item in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    kind = _WatchedInt if isinstance(value, int) else _WatchedFloat
    return kind(value).come_from(recorder, place)


def _noting(name: str) -> Any:
    def method(self: Any, *args: Any) -> Any:
        place = _outside(2)
        if place:
            _report(self._recorder, self._place)
        return getattr(self._plain, name)(self, *args)

    return method


def _of_number(original: Any) -> Any:
    """Watch a function of ``math`` that reads a float without asking it."""

    def tell(value: Any) -> Any:
        if isinstance(value, (_WatchedInt, _WatchedFloat)):
            _report(value._recorder, value._place)  # noqa: SLF001 - of this module
        return original(value)

    return tell


def _handing_on(name: str) -> Any:
    """Compute with the number; what comes out is watched, too."""

    def method(self: Any, *args: Any) -> Any:
        value = getattr(self._plain, name)(self, *args)
        if value is NotImplemented:  # an int beside a float
            value = getattr(float, name)(float.__add__(0.0, self), *args)
        return value if value is NotImplemented else _watched(value, self._recorder, self._place)

    return method


_ARITHMETIC = (
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
    "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__pow__", "__rpow__",
    "__neg__", "__abs__", "__round__", "__pos__",
)  # fmt: skip
_DECISIONS = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__bool__")


class _WatchedInt(int):
    """An integer read from a tensor; comparing it or using it as an index is a decision."""

    _plain = int
    __hash__ = int.__hash__

    def come_from(self, recorder: Recorder, place: str) -> _WatchedInt:
        """Remember where it was read."""
        self._recorder = recorder
        self._place = place
        return self


class _WatchedFloat(float):
    """A float read from a tensor; comparing it is a decision."""

    _plain = float
    __hash__ = float.__hash__

    def come_from(self, recorder: Recorder, place: str) -> _WatchedFloat:
        """Remember where it was read."""
        self._recorder = recorder
        self._place = place
        return self


for _name in _DECISIONS:
    setattr(_WatchedInt, _name, _noting(_name))
    setattr(_WatchedFloat, _name, _noting(_name))
for _name in _ARITHMETIC:
    setattr(_WatchedInt, _name, _handing_on(_name))
    setattr(_WatchedFloat, _name, _handing_on(_name))
for _name in ("__int__", "__trunc__", "__floor__", "__ceil__"):
    setattr(_WatchedFloat, _name, _noting(_name))
_WatchedInt.__index__ = _noting("__index__")  # type: ignore[method-assign]
