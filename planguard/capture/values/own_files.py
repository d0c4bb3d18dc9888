"""Which files one rank finds: a file that a program opens is there, or it is not.

``open`` that nobody catches ends the job where the file is missing, which is no divergence. One
under an ``except`` asks a question, as ``os.path.exists`` does; so does what makes, locks or
removes a file, of which one rank may be the first (``os.mkdir``, ``O_EXCL``, ``flock``).

What a file holds that is not here nobody knows. It is empty, or has a number, or the keys that the
program reads, each in the forms that programs read (``Holding``): what makes a rank raise is none
that the program takes.
"""

from __future__ import annotations

import dis
import errno
import fcntl
import io
import json
import os
import pickle
import re
import shutil
import sys
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from planguard.capture.values.own_host import SYSTEM
from planguard.sources import is_own, is_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

_READING = (os.sep, "configparser.py")
_LENIENT = os.path.join("", *_READING)  # noqa: PTH118 - with the separator in front
"""A library's file that passes over what it cannot open."""
_OPENING = tuple(
    os.path.join("", *parts)  # noqa: PTH118 - with the separator in front
    for parts in (
        (os.sep, "pathlib.py"), (os.sep, "pathlib", "__init__.py"), (os.sep, "gzip.py"),
        (os.sep, "pathlib", "_local.py"), (os.sep, "pathlib", "_abc.py"),
        (os.sep, "pathlib", "types.py"), (os.sep, "torch", "serialization.py"),
        (os.sep, "lib", "npyio.py"), (os.sep, "lib", "_npyio_impl.py"), _READING,
        (os.sep, "lib", "_datasource.py"),
    )
)  # fmt: skip
"""Libraries' files that open what the program names: ``Path.read_text``, ``torch.load``."""


def opener(frame: FrameType | None) -> str | None:
    """Return the line of the program that opens a file; None where an error ends the job."""
    is_passed_over = frame is not None and frame.f_code.co_filename.endswith(_LENIENT)
    frame = asking(frame)
    if frame is None:
        return None
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return place if is_passed_over or is_caught_at(frame) else None


def asking(frame: FrameType | None) -> FrameType | None:
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


class Holding(Enum):
    """What a file holds that is not here."""

    NOTHING = "nothing"
    NUMBER = "a number"
    SECTIONS = "the keys that the program reads, as sections of settings"
    LINES = "the same, a line for each, as TOML and files of variables have them"
    KEYS = "the keys that the program reads, as text"
    PICKLED = "the same, as pickle has it"
    SAVED = "the same, as torch.save has it"
    ARRAY = "an array"

    def content(self, keys: tuple[str, ...], number: int) -> bytes:
        """Return it as bytes, with a number in it."""
        if self is Holding.NOTHING:
            return b""
        if self is Holding.NUMBER:
            return b"%d\n" % number
        if self is Holding.ARRAY:
            return _array(number)
        named = dict.fromkeys(keys or (_KEY,), number)
        words = [key for key in named if _WORD.fullmatch(key)]
        if self is Holding.LINES:
            return "".join(f"{key} = {number}\n" for key in words).encode()
        if self is Holding.SECTIONS:  # whose keys have no case
            options = dict.fromkeys(key.lower() for key in words)
            lines = "".join(f"{key} = {number}\n" for key in options)
            return "".join(f"[{key}]\n{lines}" for key in words).encode()
        if self is Holding.KEYS:
            return json.dumps(named).encode()
        return pickle.dumps(named) if self is Holding.PICKLED else _saved(named)


_WORD = re.compile(r"[A-Za-z_][\w-]*")
"""Keys that may stand in a line of settings as they are."""
_KEY = "step"
"""A key of a file of which the program reads none."""
MANY, FEW = (1 << 20) + 1, 3
"""What stands in a file, or under each of its keys; and where loops that go so far do not end."""


def _saved(value: object) -> bytes:
    import torch

    held = io.BytesIO()
    torch.save(value, held)
    return held.getvalue()


def _array(number: int) -> bytes:
    import numpy as np

    held = io.BytesIO()
    np.save(held, np.array([number]))
    return held.getvalue()


def opened(
    original: Any,
    is_other: Callable[[str], bool],
    dice: Callable[[str], Any],
    system: Callable[[Any, str], Any],
    content: Callable[[], bytes],
    reads: Callable[[str, FrameType], str | None],
    local: Callable[[Any, str], Any],
) -> Any:
    """Return ``open`` that finds what is not there, or not what is, on a rank that is told so.

    What is only written is no question.

    Args:
        original: ``open``.
        is_other: Called with the line that asks; tells whether this rank finds it otherwise.
        dice: Called with the line that opens random bytes; gives the file.
        system: Called with a file of the system, and the line that opens it; gives the other one.
        content: What is in a file that is not here.
        reads: Called with a file that is read, and who opens it; gives the line where only this
            node has that file.
        local: Called with such a file, and the line; gives the one of another node.
    """

    def open_file(file: Any, mode: Any = "r", *args: Any, **options: Any) -> Any:
        is_new = isinstance(mode, str) and "x" in mode
        is_read = isinstance(mode, str) and ("r" in mode or is_new)
        if not is_read or not isinstance(file, (str, bytes, os.PathLike)):
            return original(file, mode, *args, **options)
        path = os.fsdecode(file)
        is_random = path in _RANDOM and "b" in mode
        if is_random or (path.startswith(SYSTEM) and "+" not in mode):
            frame = asking(sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
            if frame is None:
                return original(file, mode, *args, **options)
            line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            return dice(line) if is_random else system(original(file, mode, *args, **options), line)
        place = opener(sys._getframe(1))  # noqa: SLF001 - same
        if place is None or not is_other(place):
            found = original(file, mode, *args, **options)
            here = None if is_new else reads(path, sys._getframe(1))  # noqa: SLF001 - same
            return found if here is None or "+" in mode else local(found, here)
        if os.path.exists(file) == is_new:  # noqa: PTH110 - bytes, too
            held = content()
            if is_new or not held:
                return original(os.devnull, mode.replace("x", "w"), *args, **options)
            return io.BytesIO(held) if "b" in mode else io.StringIO(held.decode(errors="replace"))
        number = errno.EEXIST if is_new else errno.ENOENT
        raise OSError(number, os.strerror(number), file)  # Python makes the class that fits

    return open_file


CLAIM = "whether a file or a folder can be made, locked or removed"
_FIRST = ("mkdir", "makedirs", "link", "symlink", "open")
_MISSING = (
    "remove", "unlink", "rmdir", "rename", "replace", "readlink", "copy", "copy2", "copyfile",
    "move", "rmtree", "copytree",
)  # fmt: skip
_CLAIMS = {
    **dict.fromkeys(_FIRST, errno.EEXIST), **dict.fromkeys(_MISSING, errno.ENOENT),
    "getxattr": errno.ENODATA, "flock": errno.EWOULDBLOCK, "lockf": errno.EWOULDBLOCK,
}  # fmt: skip
"""What goes wrong where another one was there first, or nothing is."""
_ANSWERS = {"readlink": os.devnull, "getxattr": b"1"}
"""What is read where here nothing is."""


def claims(
    is_other: Callable[[str, str], bool],
    descriptor: Callable[[int, tuple[Any, ...], FrameType], int],
) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """Return every function that makes, locks or removes: owner, name, what makes the other one.

    Args:
        is_other: Called with the kind and the line; tells whether this rank finds it otherwise.
        descriptor: Called with what ``os.open`` opened, its arguments, and who opens; gives the
            number of the file that this rank reads.
    """

    def claiming(original: Any) -> Any:
        name = original.__name__

        def claim(*args: Any, **options: Any) -> Any:
            is_asked = _is_claim(name, args, options)
            place = opener(sys._getframe(1)) if is_asked else None  # noqa: SLF001 - same
            if place is None or not is_other(CLAIM, place):
                given = original(*args, **options)
                if name != "open" or options or len(args) < 2:
                    return given
                return descriptor(given, args, sys._getframe(1))  # noqa: SLF001 - same
            number = errno.ENOENT if name == "open" and not _is_new(args) else _CLAIMS[name]
            try:
                found = original(*args, **options)
            except OSError:
                return os.open(os.devnull, os.O_RDWR) if name == "open" else _ANSWERS.get(name)
            if name == "open":
                os.close(found)
            raise OSError(number, os.strerror(number), str(args[0]))  # Python takes its class

        claim.__name__ = name
        return claim

    for owner in (os, fcntl, shutil):
        yield from ((owner, name, claiming) for name in _CLAIMS if hasattr(owner, name))


def _is_claim(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Tell whether a call may find that another one was there first, or that nothing is."""
    if name == "makedirs":
        return not (options.get("exist_ok") or (len(args) > 2 and args[2]))
    if name in ("flock", "lockf"):
        return len(args) > 1 and isinstance(args[1], int) and bool(args[1] & fcntl.LOCK_NB)
    if name == "open":
        return len(args) > 1 and (_is_new(args) or not args[1] & os.O_CREAT)
    return True


def _is_new(args: tuple[Any, ...]) -> bool:
    return bool(args[1] & os.O_EXCL)
