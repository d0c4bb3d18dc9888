"""Notices when the program decides something on a value that is not real under capture.

What is too large for the control plane is made up, and so is what a stubbed operator leaves undone;
such tensors are marked. A number read from one is ``Watched``. Where Python wants a plain value at
once (``bool(t)``, ``float(t)``, arrays of numpy, memory), the reading itself is reported, unless it
is only shown. Libraries' reads count as well: they are told by the user's line that led to them.
Where a tensor holds no values at all (fake tensors), zeros are read.
"""

from __future__ import annotations

import functools
import json
import math
import sys
from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

from planguard.capture.values.made_up import is_marked, mark, tensors_in
from planguard.capture.values.own_sizes import watch_sizes
from planguard.capture.values.own_values import DECIDING, Readings
from planguard.capture.values.sinks import is_shown_only, place_of
from planguard.capture.values.watched import (
    HANDED_ON,
    holds_watched,
    is_saving,
    of_json,
    of_math,
    plain_of,
    watch,
)
from planguard.sources import is_library, package_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from planguard.capture.groups.recorder import Recorder

KIND = "data-dependent-value"
_TELLING = (
    "__bool__", "__int__", "__float__", "__complex__", "__index__", "__contains__", "equal",
    "allclose", "is_nonzero", "numpy", "__array__", "__dlpack__", "__repr__", "__format__",
)  # fmt: skip
"""Methods of tensors that give a plain value away."""
_MEMORY = ("data_ptr", "untyped_storage", "storage", "_typed_storage", "const_data_ptr")
"""Methods that give the memory away. Installed packages use them to move what they hold."""


@contextmanager
def watch_values(recorder: Recorder, readings: Readings | None = None) -> Iterator[None]:
    """Watch what reads the values of tensors: those that are made up, and a rank's own."""
    import torch

    own = Readings(recorder.rank) if readings is None else readings
    # TorchScript knows torch's operators by the identity of their Python functions, in a table that
    # is made once. Made now it holds torch's own; made inside, it would hold those put in their
    # place here, whose identities are other functions' when they are gone.
    torch.jit._builtins._get_builtin_table()  # noqa: SLF001 - torch has no public way

    def reading(original: Any) -> Any:
        return _reading(original, recorder, own)

    def telling(original: Any) -> Any:
        return _telling(original, recorder, own)

    undo = [_patch(torch.Tensor, name, reading) for name in ("item", "tolist")]
    undo += [_patch(torch.Tensor, name, telling) for name in _TELLING]
    undo += [_patch(torch, name, telling) for name in ("equal", "allclose", "is_nonzero")]
    undo += [_patch(torch.Tensor, name, lambda o: _giving_memory(o, recorder)) for name in _MEMORY]
    saved: set[Any] = set()
    undo.append(_patch(torch.Tensor, "__reduce_ex__", lambda o: _pickling(o, recorder, saved)))
    undo += [_patch(home, "load", lambda o: _loading(o, saved))
             for home in (torch, torch.serialization)]  # fmt: skip
    undo.append(_patch(torch.Tensor, "__deepcopy__", _copying))
    undo += [_patch(torch, name, lambda o: _making(o, recorder))
             for name in ("tensor", "as_tensor", "asarray")]  # fmt: skip
    undo += [_patch(math, name, of_math) for name in HANDED_ON]
    undo += [_patch(json.JSONEncoder, name, of_json) for name in ("encode", "iterencode")]
    undo.append(_patch(torch.utils.dlpack, "to_dlpack", telling))

    def size(deciding: Any, frame: FrameType) -> bool | None:
        given = deciding if isinstance(deciding, list) else [deciding]
        is_own = not (recorder.is_watched or any(_doubtful(recorder, one) for one in given))
        return own.size(deciding, frame) if is_own else None

    watch_sizes(lambda *place: undo.append(_patch(*place)), size)
    try:
        yield
    finally:
        for restore in undo:
            restore()


def _patch(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Callable[[], None]:
    from torch import _jit_internal
    from torch.jit import _builtins as scripted

    original = getattr(owner, name)
    inherited = name not in vars(owner)
    wrapped = wrap(original)
    setattr(owner, name, wrapped)
    known = scripted._find_builtin(original)  # noqa: SLF001 - what torch.jit.script takes it for
    if known is not None:
        scripted._register_builtin(wrapped, known)  # noqa: SLF001 - torch has no public way
    by_flag = _jit_internal.boolean_dispatched
    if isinstance(original, FunctionType) and original in by_flag:  # torch.unique, for example
        by_flag[wrapped] = by_flag[original]

    def restore() -> None:
        # The table knows functions by identity, and that of a function that is gone is another's.
        scripted._get_builtin_table().pop(id(wrapped), None)  # noqa: SLF001 - torch has no public way
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)

    return restore


def _reporter(recorder: Recorder, read_at: str) -> Callable[[Any], None]:
    """Return what a watched number tells: where it was read, and where it decides."""

    def report(frame: Any) -> None:
        decided = place_of(frame)
        where = read_at if decided == read_at else f"{read_at}, and used at {decided}"
        _report(recorder, where)

    return report


def _reading(original: Any, recorder: Recorder, readings: Readings) -> Any:
    def read(tensor: Any) -> Any:
        is_outermost = not recorder.is_watched
        is_doubted = is_outermost and _doubtful(recorder, tensor)
        value = _value(original, recorder, tensor)
        frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
        if not is_doubted:
            return readings.read([tensor], value, frame) if is_outermost else value
        place = place_of(frame)
        recorder.doubted = recorder.doubted or place
        recorder.doubt()
        if tensor.dtype.is_floating_point or tensor.dtype in _whole():
            return watch(value, _reporter(recorder, place))
        if not is_shown_only(frame):  # a truth value cannot be watched: ``is True`` asks nobody
            _report(recorder, place)
        return value

    return read


def _whole() -> Any:
    import torch

    return (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _telling(original: Any, recorder: Recorder, readings: Readings) -> Any:
    def tell(*args: Any, **options: Any) -> Any:
        if recorder.is_watched:
            return _value(original, recorder, *args, **options)
        frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
        given = list(tensors_in([args, options]))  # torch.allclose(input=a, other=b)
        is_doubted = any(_doubtful(recorder, one) for one in given)
        if is_doubted and not is_shown_only(frame):
            _report(recorder, place_of(frame))
        value = _value(original, recorder, *args, **options)
        if is_doubted or not given or original.__name__ not in DECIDING:
            return value
        if isinstance(value, str):
            return _text(original, value, args, readings, frame)
        return readings.read(given, value, frame)

    tell.__name__ = getattr(original, "__name__", "tell")
    return tell


def _text(
    original: Any, found: str, args: tuple[Any, ...], readings: Readings, frame: FrameType
) -> str:
    """Return what a tensor of one number is as text, which tells its value."""
    import torch

    tensor = args[0].detach()
    if tensor.dim() or tensor.is_complex():
        return found
    number = tensor.item()
    other = readings.read([tensor], number, frame)
    return found if other is number else original(torch.full_like(tensor, other), *args[1:])


def _giving_memory(original: Any, recorder: Recorder) -> Any:
    def give(tensor: Any, *args: Any) -> Any:
        frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
        file = frame.f_code.co_filename
        if not (is_library(file) or package_of(file)) and _doubtful(recorder, tensor):
            _report(recorder, place_of(frame))
        return original(tensor, *args)

    return give


def _pickling(original: Any, recorder: Recorder, saved: set[Any]) -> Any:
    def reduce(tensor: Any, protocol: Any) -> Any:
        frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
        if not recorder.is_watched and _doubtful(recorder, tensor):
            if is_saving(frame):
                saved.add(_sort(tensor))
            else:
                _report(recorder, place_of(frame))
        return original(tensor, protocol)

    return reduce


def _loading(original: Any, saved: set[Any]) -> Any:
    """Let what is read back be marked as what was saved was: a file or a buffer keeps no mark.

    Which of the saved tensors it is nobody knows; one of the same shape and type may be it.
    """

    def load(*args: Any, **options: Any) -> Any:
        found = original(*args, **options)
        if saved:
            mark(one for one in tensors_in(found) if _sort(one) in saved)
        return found

    return load


def _sort(tensor: Any) -> Any:
    return tensor.dtype, tuple(tensor.shape)


def _copying(original: Any) -> Any:
    def deepcopy(tensor: Any, memo: Any) -> Any:
        found = original(tensor, memo)
        if is_marked(tensor):
            mark(tensors_in(found))
        return found

    return deepcopy


def _making(original: Any, recorder: Recorder) -> Any:
    """Let a tensor that is made of watched numbers be marked."""

    def make(data: Any, *args: Any, **options: Any) -> Any:
        is_made_up = holds_watched(data) is not None
        given, options = _headed(data, args, options, is_fake=recorder.is_fake)
        found = original(plain_of(given) if is_made_up else given, *args, **options)
        if is_made_up:
            mark([found])
        return found

    return make


def _headed(data: Any, args: Any, options: Any, *, is_fake: bool) -> tuple[Any, Any]:
    """Put a number in the place of a tensor without dimensions at the head of nested lists.

    Torch finds the shape of lists by what stands first in each, and asks what has items by number
    for its length. Tensors have none until a ``__getitem__`` is put into their class, as is done
    here, and one without dimensions has no length (torch 2.13.0, ``compute_sizes`` in
    ``tensor_new.cpp``). What is read of it, and the type of all, are as there.
    """
    import torch

    heads = [data]
    while isinstance(heads[-1], (list, tuple)) and heads[-1]:
        heads.append(heads[-1][0])
    if len(heads) == 1 or not isinstance(heads[-1], torch.Tensor) or heads[-1].dim():
        return data, options
    item = torch._C.TensorBase.item  # noqa: SLF001 - nothing is put in its place
    made = 0 if is_fake else item(heads[-1])
    for whole in reversed(heads[:-1]):
        made = [made, *whole[1:]]
    if args or options.get("dtype") is not None:
        return made, options
    kinds = (one.dtype if isinstance(one, torch.Tensor) else torch.tensor(one).dtype
             for one in _leaves(plain_of(data)))  # fmt: skip
    return made, {**options, "dtype": functools.reduce(torch.promote_types, kinds)}


def _leaves(data: Any) -> Iterator[Any]:
    for one in data if isinstance(data, (list, tuple)) else ():
        yield from _leaves(one) if isinstance(one, (list, tuple)) else (one,)


def _doubtful(recorder: Recorder, tensor: Any) -> bool:
    """Tell whether a value may be other than in a real run."""
    if recorder.is_fake:
        from torch._subclasses.fake_tensor import FakeTensor

        if isinstance(tensor, FakeTensor):
            return True
    return is_marked(tensor)


def _value(original: Any, recorder: Recorder, *args: Any, **options: Any) -> Any:
    """Read a value; one that does not exist, of a fake tensor, is a zero and never a silent one."""
    before, recorder.is_watched = recorder.is_watched, True
    try:
        return original(*args, **options)
    except Exception as error:
        if type(error).__name__ not in _VALUELESS or not args:
            raise
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
    """Report that an operator read a value that was made up, or gave a shape by it."""
    frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
    _report(recorder, f"{place_of(frame)}, by an operator")


def _report(recorder: Recorder, place: str) -> None:
    message = (
        f"the program decides on a tensor's value at {place}; under capture what other ranks "
        "contribute and what was not computed is made up, so the recorded calls may differ from "
        "the real ones"
    )
    if recorder.is_stalled:
        recorder.give_up()  # what it reads will never be there
    # The real run may issue something else: neither a proof nor a witness holds behind here.
    recorder.doubt()
    recorder.note(KIND, message, "under")
    recorder.note(KIND, message, "over")


def doubt_end(recorder: Recorder, end: str) -> None:
    """Say that a rank that read a made-up number raised: it may not, where the number is real."""
    _report(recorder, f"{recorder.doubted}, and rank {recorder.rank} ended by {end}")
