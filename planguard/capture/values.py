"""Notices when the program decides something on a value that is not real under capture.

What a stubbed collective returns is made up, so a number read from a tensor may be wrong. Printing
it is harmless; comparing it, using it as an index or as a truth value may change what the rank
issues next. Numbers read by ``item()`` and ``tolist()`` therefore remember where they come from.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from planguard.capture.rank_reads import is_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.capture.recorder import Recorder

KIND = "data-dependent-value"


@contextmanager
def watch_values(recorder: Recorder) -> Iterator[None]:
    """Watch ``item``, ``tolist`` and the truth value of tensors after the first communication."""
    import torch

    undo = [
        _patch(torch.Tensor, "item", lambda original: _reading(original, recorder)),
        _patch(torch.Tensor, "tolist", lambda original: _reading(original, recorder)),
        _patch(torch.Tensor, "__bool__", lambda original: _deciding(original, recorder)),
    ]
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
        value = original(tensor)
        place = _outside(2)
        return _watched(value, recorder, place) if place and recorder.actions else value

    return read


def _deciding(original: Any, recorder: Recorder) -> Any:
    def decide(tensor: Any) -> bool:
        place = _outside(2)
        if place and recorder.actions:
            _report(recorder, place)
        return bool(original(tensor))

    return decide


def _outside(depth: int) -> str | None:
    """Return the direct caller as ``file:line`` unless it is a library."""
    frame = sys._getframe(depth)  # noqa: SLF001 - torch or the interpreter has no public way
    file = frame.f_code.co_filename
    return None if is_library(file) else f"{file}:{frame.f_lineno}"


def _report(recorder: Recorder, place: str) -> None:
    message = (
        f"the program decides on a tensor's value at {place}; under capture what other ranks "
        "contribute is made up, so the recorded calls may differ from the real ones"
    )
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
_WatchedInt.__index__ = _noting("__index__")  # type: ignore[method-assign]
