"""The bytes of an input, block by block: a file, a compressed one, or standard input."""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
import sys
import zlib
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

from planguard.errors import MissingPackageError, PlanError
from planguard.files import STDOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STDIN = STDOUT
"""Name of standard input."""
BLOCK = 2 << 20
MAX_RATIO = 400
"""Largest ratio of a compressed input; real traces stay below 100."""
RATIO_FREE = 8 << 20
"""Decompressed bytes below which the ratio does not matter."""
MAX_STREAM = 1 << 40
"""Bytes of one input at most."""
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


class DamagedError(PlanError):
    """An archive that cannot be decompressed to its end: damaged, or cut."""


def blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of an input, decompressed (gzip, zstd).

    Raises:
        DamagedError: An archive ends too early, or is damaged, behind what was yielded.
        PlanError: No regular file, or cannot be read.
    """
    yield from _as_utf8(_packed(path))


def _as_utf8(raw: Iterator[bytes]) -> Iterator[bytes]:
    """Yield blocks as they are, and those of a text with a byte order mark as UTF-8 without it.

    PowerShell and Windows' log collectors write UTF-16; what no character is becomes U+FFFD.
    """
    first = next(raw, b"")
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from raw
        return
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    for block in chain((first,), raw):
        yield decoder.decode(block).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _packed(path: Path) -> Iterator[bytes]:
    name = str(path)
    try:
        if name == STDIN:
            yield from _plain(_stream(sys.stdin.buffer), name)
            return
        with open(name, "rb", opener=_at_once, buffering=0) as file:
            known = os.fstat(file.fileno())
            if not stat.S_ISREG(known.st_mode):
                raise PlanError("not a regular file", file=name)
            # A buffer as large as a block is laid out, and given back, for each small file.
            yield from _plain(_stream(file, min(BLOCK, known.st_size + 1)), name)
    except OSError as error:
        raise PlanError(f"cannot be read: {error.strerror}", file=name) from None


def _at_once(name: str, flags: int) -> int:
    """Open a file, a pipe without waiting for somebody who writes."""
    return os.open(name, flags | os.O_NONBLOCK)


def _stream(file: IO[bytes] | Any, size: int = BLOCK) -> Iterator[bytes]:
    total = 0
    while (block := file.read(size)) and total < MAX_STREAM:
        total += len(block)
        yield block


def _plain(raw: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield blocks decompressed, where the first bytes say that they are compressed."""
    first = next(raw, b"")
    while first and len(first) < len(_ZSTD) and (more := next(raw, b"")):
        first += more
    if first.startswith(_GZIP):
        yield from _bounded(first, raw, name, _Gzip(name))
    elif first.startswith(_ZSTD):
        yield from _bounded(first, raw, name, _Zstd(name))
    else:
        if first:
            yield first
        yield from raw


def _bounded(
    first: bytes, raw: Iterator[bytes], name: str, engine: _Gzip | _Zstd
) -> Iterator[bytes]:
    """Yield what an engine makes of blocks, and stop where it becomes more than any log does."""
    packed = total = 0
    block = first
    while block:
        packed += len(block)
        for part in engine.parts(block):
            total += len(part)
            if total > RATIO_FREE and total > MAX_RATIO * packed:
                raise PlanError(
                    f"refused: {packed:,} compressed bytes become more than {total:,}",
                    file=name,
                    hint="decompress it yourself if it is meant to be so large",
                )
            if part:
                yield part
        block = next(raw, b"")
    if not engine.is_done():
        raise DamagedError("the compressed file ends too early", file=name)


class _Gzip:
    """gzip, several members after each other included."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.engine = zlib.decompressobj(wbits=31)

    def parts(self, block: bytes) -> Iterator[bytes]:
        """Yield what a block decompresses to."""
        try:
            while block:
                if self.engine.eof:
                    if not block.startswith(_GZIP):
                        return  # padding behind the last member
                    self.engine = zlib.decompressobj(wbits=31)
                before = self.engine.copy()
                try:
                    part = self.engine.decompress(block, BLOCK)
                except zlib.error:
                    yield from _salvaged(before, block)
                    raise
                yield part
                block = self.engine.unconsumed_tail or self.engine.unused_data
        except zlib.error as error:
            raise DamagedError(f"not a readable gzip file: {error}", file=self.name) from None

    def is_done(self) -> bool:
        """Tell whether the last member came to its end."""
        return self.engine.eof


def _salvaged(engine: Any, block: bytes) -> Iterator[bytes]:
    """Yield what stands before the damage in a block: an engine that fails gives nothing out."""
    with contextlib.suppress(zlib.error):
        for place in range(len(block)):
            yield engine.decompress(block[place : place + 1])


class _Zstd:
    """zstd, by the package zstandard, which PlanGuard does not need otherwise."""

    def __init__(self, name: str) -> None:
        try:
            import zstandard
        except ImportError:
            # An error of this file: an audit of a folder reads the other files all the same.
            missing = MissingPackageError("zstandard", "a file compressed with zstd")
            hint = f"{missing.hint}, or decompress it: zstd -dc FILE | planguard audit -"
            raise PlanError(missing.message, file=name, hint=hint) from None
        self.name = name
        self.error: type[Exception] = zstandard.ZstdError
        self.packer = zstandard.ZstdDecompressor(max_window_size=1 << 27)
        self.engine: Any = self.packer.decompressobj()

    def parts(self, block: bytes) -> Iterator[bytes]:
        """Yield what a block decompresses to, from slices small enough to stay bounded."""
        try:
            for place in range(0, len(block), 1 << 12):
                rest = block[place : place + (1 << 12)]
                while rest:
                    if self.engine.eof:  # one frame after the other, each with its own end
                        self.engine = self.packer.decompressobj()
                    yield self.engine.decompress(rest)
                    rest = self.engine.unused_data if self.engine.eof else b""
        except self.error as error:
            raise DamagedError(f"not a readable zstd file: {error}", file=self.name) from None

    def is_done(self) -> bool:
        """Tell whether the last frame came to its end."""
        return bool(self.engine.eof)
