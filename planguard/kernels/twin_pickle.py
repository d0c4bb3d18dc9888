"""The Python twin of ``native/src/pickle.cpp``: what a pickle may not do to its reader."""

from __future__ import annotations

LONGEST_KEY = 1 << 17
"""Bytes of the longest text that may be the key of a dictionary."""

_PLAIN = dict.fromkeys(b"N\x88\x89)]}", 0) | {0x4B: 1, 0x4D: 2, 0x4A: 4, 0x47: 8}
_SIZED = {0x8A: 1, 0x43: 1, 0x8B: 4, 0x42: 4, 0x8E: 8, 0x96: 8}
_TEXT = {0x55: 1, 0x8C: 1, 0x54: 4, 0x58: 4, 0x8D: 8}
_PUT = {0x71: 1, 0x72: 4, 0x70: 0}
_GET = {0x68: 1, 0x6A: 4, 0x67: 0}
_ENDS = frozenset(b"c\x93iRo\x81\x92PQ\x82\x83\x84.")


class _EndError(Exception):
    """What follows is the unpickler's to refuse: a global, an object, the end of the data."""


class _RefusedError(Exception):
    """Not what a recording holds."""


def refused_opcode(data: bytes) -> int:
    """Return the place of the first opcode that a recording cannot need; -1 if there is none.

    It makes a set, or a dictionary key of anything but text of at most ``LONGEST_KEY`` bytes, or
    the stack has nothing for it. A tuple of tuples that share their parts is a few bytes long and
    takes forever to hash, and integers can be chosen to collide; text does neither.
    """
    follower, place = _Follower(data), -1
    try:
        while follower.at < len(data):
            place = follower.at
            follower.step()
    except _RefusedError:
        return place
    except _EndError:
        pass
    return -1


class _Follower:
    """The stack of an unpickler: for every object, whether it may be a key."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.stack: list[bool] = []
        self.marks: list[int] = []
        self.memo: dict[int, bool] = {}

    def step(self) -> None:
        """Follow one opcode."""
        op = self.take(1)[0]
        if op in _ENDS:
            raise _EndError
        if op in _PLAIN:
            self.take(_PLAIN[op])
            self.stack.append(False)
        elif op in _SIZED:
            self.take(self.number(_SIZED[op]))
            self.stack.append(False)
        elif op in _TEXT:
            self.stack.append(len(self.take(self.number(_TEXT[op]))) <= LONGEST_KEY)
        elif op in b"ILFSV":
            self.stack.append(len(self.line()) <= LONGEST_KEY and op in b"SV")
        elif op in _PUT or op == 0x94:
            index = len(self.memo) if op == 0x94 else self.index(_PUT[op])
            self._reach(1)
            self.memo[index] = self.stack[-1]
        elif op in _GET:
            self._get(self.index(_GET[op]))
        else:
            self._move(op)

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if count > len(self.data) - self.at:
            raise _EndError
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        """Return the next little-endian number."""
        return int.from_bytes(self.take(size), "little")

    def line(self) -> bytes:
        """Return the bytes up to the end of the line."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise _EndError
        return self.take(end + 1 - self.at)[:-1]

    def index(self, size: int) -> int:
        """Return a place in the memo, which is a number of a size, or of digits only."""
        if size:
            return self.number(size)
        text = self.line()
        if not 0 < len(text) <= 18 or text.strip(b"0123456789"):
            raise _RefusedError
        return int(text)

    def _get(self, index: int) -> None:
        if index not in self.memo:
            raise _RefusedError
        self.stack.append(self.memo[index])

    def _fence(self) -> int:
        return self.marks[-1] if self.marks else 0

    def _reach(self, count: int) -> None:
        if len(self.stack) < self._fence() + count:
            raise _RefusedError

    def _pop(self, count: int) -> list[bool]:
        self._reach(count)
        popped = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return popped

    def _to_mark(self) -> list[bool]:
        if not self.marks:
            raise _RefusedError
        return self._pop_from(self.marks.pop())

    def _pop_from(self, first: int) -> list[bool]:
        popped = self.stack[first:]
        del self.stack[first:]
        return popped

    def _move(self, op: int) -> None:
        """Follow an opcode that has no value of its own."""
        if op in b"(":
            self.marks.append(len(self.stack))
        elif op in b"\x80\x95":
            self.take(1 if op == 0x80 else 8)
        elif op in b"tl":
            self._to_mark()
            self.stack.append(False)
        elif op in b"\x85\x86\x87":
            self._pop(op - 0x84)
            self.stack.append(False)
        elif op in b"dsu":
            self._store(op)
        elif op in b"ae1":
            self._pop(1) if op in b"a" else self._to_mark()
            self._reach(int(op in b"ae"))
        elif op in b"2":
            self._reach(1)
            self.stack.append(self.stack[-1])
        elif op in b"0" and self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        elif op in b"0":
            self._pop(1)
        else:
            raise _RefusedError

    def _store(self, op: int) -> None:
        pairs = self._pop(2) if op in b"s" else self._to_mark()
        if len(pairs) % 2 or not all(pairs[::2]):
            raise _RefusedError
        if op in b"d":
            self.stack.append(False)
        self._reach(int(op in b"su"))
