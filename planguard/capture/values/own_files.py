"""Which files one rank finds: a file that a program opens is there, or it is not.

``open`` that nobody catches ends the job where the file is missing, which is no divergence. One
under an ``except`` asks a question, as ``os.path.exists`` does.
"""

from __future__ import annotations

import dis
import errno
import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from planguard.capture.values.own_host import SYSTEM
from planguard.sources import is_own, is_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

_OPENING = tuple(
    os.path.join("", *parts)  # noqa: PTH118 - with the separator in front
    for parts in (
        (os.sep, "pathlib.py"), (os.sep, "pathlib", "__init__.py"), (os.sep, "gzip.py"),
        (os.sep, "pathlib", "_local.py"), (os.sep, "torch", "serialization.py"),
        (os.sep, "lib", "npyio.py"), (os.sep, "lib", "_npyio_impl.py"),
    )
)  # fmt: skip
"""Libraries' files that open what the program names: ``Path.read_text``, ``torch.load``."""


def opener(frame: FrameType | None) -> str | None:
    """Return the line of the program that opens a file; None where an error ends the job."""
    frame = _asking(frame)
    if frame is None:
        return None
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return place if is_caught_at(frame) else None


def _asking(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the program that opens, itself or through what opens for it."""
    while frame is not None and _hands_on(frame.f_code.co_filename):
        frame = frame.f_back
    return frame if frame is not None and is_program(frame.f_code.co_filename) else None


def _hands_on(file: str) -> bool:
    return file.endswith(_OPENING) or is_own(file)  # torch.load is watched, too


@lru_cache(maxsize=4096)
def _caught(code: CodeType) -> tuple[tuple[int, int], ...]:
    entries = getattr(dis.Bytecode(code), "exception_entries", ())
    return tuple((one.start, one.end) for one in entries)


def _is_caught(code: CodeType, at: int) -> bool:
    """Tell whether an error at an instruction goes to a handler, or to the end of a ``with``."""
    return any(start <= at < end for start, end in _caught(code))


def is_caught_at(frame: FrameType | None) -> bool:
    """Tell whether an error in a frame, or in what it called, goes to a handler of the program."""
    while frame is not None and not is_own(frame.f_code.co_filename):
        code = frame.f_code
        if is_program(code.co_filename) and _is_caught(code, frame.f_lasti):
            return True
        frame = frame.f_back
    return False


_RANDOM = ("/dev/urandom", "/dev/random", "/dev/hwrng")


def opened(
    original: Any,
    is_other: Callable[[str], bool],
    dice: Callable[[str], Any],
    system: Callable[[Any, str], Any],
) -> Any:
    """Return ``open`` that finds what is not there, or not what is, on a rank that is told so.

    What is not there is empty. What is only written is no question.

    Args:
        original: ``open``.
        is_other: Called with the line that asks; tells whether this rank finds it otherwise.
        dice: Called with the line that opens random bytes; gives the file.
        system: Called with a file of the system, and the line that opens it; gives the other one.
    """

    def open_file(file: Any, mode: Any = "r", *args: Any, **options: Any) -> Any:
        is_new = isinstance(mode, str) and "x" in mode
        is_read = isinstance(mode, str) and ("r" in mode or is_new)
        if not is_read or not isinstance(file, (str, bytes, os.PathLike)):
            return original(file, mode, *args, **options)
        path = os.fsdecode(file)
        is_random = path in _RANDOM and "b" in mode
        if is_random or (path.startswith(SYSTEM) and "+" not in mode):
            frame = _asking(sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
            if frame is None:
                return original(file, mode, *args, **options)
            line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            return dice(line) if is_random else system(original(file, mode, *args, **options), line)
        place = opener(sys._getframe(1))  # noqa: SLF001 - same
        if place is None or not is_other(place):
            return original(file, mode, *args, **options)
        if os.path.exists(file) == is_new:  # noqa: PTH110 - bytes, too
            return original(os.devnull, mode.replace("x", "w"), *args, **options)
        number = errno.EEXIST if is_new else errno.ENOENT
        raise OSError(number, os.strerror(number), file)  # Python makes the class that fits

    return open_file
