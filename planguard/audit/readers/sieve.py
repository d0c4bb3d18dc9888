"""A log of any size in bounded memory: the lines that a reader may want, and those behind them.

A log of a gigabyte says what it says in a few hundred lines. Blocks are searched for the marks of
the readers, which takes a fraction of what decoding and parsing every line would. What does not fit
is left out in the middle: a hang is told of at the end, and communicators are made at the start.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.audit.readers.marks import BESIDE, STARTS, TELLING

if TYPE_CHECKING:
    from collections.abc import Iterable

KEPT = 12 << 20
"""Bytes of lines that are kept of a log."""
LONGEST = 16_000
"""Bytes of one line that are kept; no reader looks at more."""
BEHIND = 60
"""Lines that are kept behind a headline."""
MARKS = tuple(dict.fromkeys((*TELLING, *BESIDE, *STARTS)))


@dataclass
class Sieve:
    """Takes a text block by block and keeps what may matter.

    Attributes:
        limit: Bytes of lines that are kept: half of them the first, half the last.
        size: Bytes taken.
        cut: Bytes of lines that would have been kept and did not fit.
    """

    limit: int = KEPT
    size: int = 0
    cut: int = 0
    _first: list[bytes] = field(default_factory=list)
    _last: deque[bytes] = field(default_factory=deque)
    _sizes: list[int] = field(default_factory=lambda: [0, 0])
    _rest: bytes = b""
    _skips: bool = False
    _wanted: int = 0

    def feed(self, blocks: Iterable[bytes]) -> None:
        """Take blocks, the last of them included."""
        for block in blocks:
            self.size += len(block)
            self._take(block)
        if self._rest:
            self._lines(self._rest + b"\n")
            self._rest = b""

    def kept(self) -> bytes:
        """Return the lines that were kept, in order."""
        return b"".join((*self._first, *self._last))

    def _take(self, block: bytes) -> None:
        """Give whole lines on, and of a line without an end its beginning."""
        if self._skips:
            end = block.find(b"\n")
            if end < 0:
                return
            block, self._skips = block[end:], False
        end = block.rfind(b"\n") + 1
        if end:
            self._lines(self._rest + block[:end])
            self._rest = b""
        self._rest += block[end : end + LONGEST]
        if len(self._rest) >= LONGEST:
            self._rest, self._skips = self._rest[:LONGEST], True

    def _lines(self, text: bytes) -> None:
        spans: list[tuple[int, int]] = []
        if self._wanted:
            end, self._wanted = _behind(text, 0, self._wanted)
            spans.append((0, end))
        for mark in MARKS:
            is_start, length = mark in STARTS, len(mark)
            place = text.find(mark)
            while place >= 0:
                start = text.rfind(b"\n", 0, place) + 1
                end = text.find(b"\n", place + length) + 1 or len(text)
                after = end
                if is_start:
                    end, more = _behind(text, end, BEHIND)
                    self._wanted = max(self._wanted, more)
                spans.append((start, end))
                place = text.find(mark, after)
        done = 0
        for start, end in sorted(spans):
            if end > done:
                self._keep(text[max(start, done) : end])
                done = end

    def _keep(self, lines: bytes) -> None:
        if len(lines) > LONGEST:
            rows = lines.splitlines(keepends=True)
            lines = b"".join(r if len(r) <= LONGEST else r[: LONGEST - 1] + b"\n" for r in rows)
        if self._sizes[0] + len(lines) <= self.limit // 2 and not self._last:
            self._first.append(lines)
            self._sizes[0] += len(lines)
            return
        self._last.append(lines)
        self._sizes[1] += len(lines)
        while self._sizes[1] > self.limit // 2 and len(self._last) > 1:
            gone = len(self._last.popleft())
            self._sizes[1] -= gone
            self.cut += gone


def _behind(text: bytes, start: int, count: int) -> tuple[int, int]:
    """Return where so many lines end, and how many the text lacks."""
    place = start
    for number in range(count):
        end = text.find(b"\n", place) + 1
        if not end:
            return len(text), count - number
        place = end
    return place, 0
