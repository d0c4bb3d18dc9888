"""The beginning of a file, by which its kind is told: read once for all who ask.

Fifteen adapters are asked whose file it is, and each looks at its beginning. The last one that was
read is kept, under what the file system says of the file. That alone would not do: a file that is
written twice within one tick of its clock has one time for two contents. So a beginning is kept
only where the file had not changed for a while when it was read, as Git does with its index.
"""

from __future__ import annotations

import os
import stat
import threading
import time
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import StrPath

HEAD = 1 << 16
"""Bytes of a beginning, before and after unpacking."""
GZIP = b"\x1f\x8b"
SETTLED_NS = 2_000_000_000
"""Age of the last change from which on a file's time tells its contents apart, nanoseconds."""

_asked = threading.local()
_kept: tuple[tuple[object, ...], bytes] | None = None


def head_of(path: StrPath) -> bytes:
    """Return the beginning of a file, unpacked; empty if there is none that can be read.

    A pipe or a device has none, and is not opened: that may wait for ever.
    """
    global _kept  # noqa: PLW0603  a cache of one
    held = getattr(_asked, "head", None)
    if held is not None and held[0] == os.fspath(path):
        return bytes(held[1])
    try:
        found = os.stat(path)  # noqa: PTH116  asked by every adapter of every file
        if not stat.S_ISREG(found.st_mode):
            return b""
        key = (
            os.fspath(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns,
            found.st_ctime_ns,
        )  # fmt: skip
        if _kept is not None and _kept[0] == key:
            return _kept[1]
        now = time.time_ns()
        with open(path, "rb") as file:  # noqa: PTH123  as above
            head = unzipped(file.read(HEAD))
    except (OSError, ValueError):
        return b""
    if max(found.st_mtime_ns, found.st_ctime_ns) < now - SETTLED_NS:
        _kept = key, head
    return head


@contextmanager
def one_look(path: StrPath) -> Iterator[None]:
    """Look at a file once: inside, its beginning is what it was on entry, for this thread."""
    before = getattr(_asked, "head", None)
    _asked.head = os.fspath(path), head_of(path)
    try:
        yield
    finally:
        _asked.head = before


def unzipped(data: bytes) -> bytes:
    """Return the beginning of what was compressed, or nothing where it cannot be unpacked."""
    if data[:2] != GZIP:
        return data[:HEAD]
    try:
        return zlib.decompressobj(wbits=31).decompress(data[:HEAD], HEAD)
    except zlib.error:
        return b""
