"""The log of one process of a recorded run: a header and records in a file mapped into memory.

A record begins with a word of its length that is stored last, so a process that is killed leaves
every record it committed readable. What does not fit is counted in the header, never wrapped. The
native interposer does the same below Python (native/preload/log.h).
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import threading
import time
import weakref
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from threading import get_native_id
from time import monotonic_ns
from typing import Any

from planguard.errors import UsageError
from planguard.plan.actions import DTYPE_NAME, REDUCE_NAMES
from planguard.plan.vocabulary import LOGGED

MAGIC = b"PGRUN\0\0\0"
VERSION = 5
VERSIONS = (1, 2, 3, 4, 5)
"""Version 2 added threads, operators and backward passes; 3 groups made by their members; 4 where
threads and tasks start, begin and are waited for; 5 what buffers hold, and a few values."""
SUFFIX = ".pgrun"
HEADER_BYTES = 4096
FIRST_BYTES = 1 << 20
MOST_BYTES, MOST_RANKS = 1 << 28, 1_000_000
"""Bytes to which a log grows; what comes later is counted as dropped."""
COMMITTED = 0x80000000
HEADER = struct.Struct("<8sIIQQQQQiiII16s")
"""Zero in older logs: how often the job was started anew, and which start it was (the last two)."""
SMALL = struct.Struct("<IBBxxIIQ")
CALL = struct.Struct("<IBBBBIIiiIIIIQQ")
STRING = struct.Struct("<IBxxxII")
pack_small, pack_call, pack_word = SMALL.pack_into, CALL.pack_into, struct.Struct("<I").pack_into
SMALL_BYTES, CALL_BYTES = SMALL.size, CALL.size
SMALL_ROOM, CALL_ROOM = SMALL_BYTES + 4, CALL_BYTES + 4
"""A record, and the zero word behind it."""

STUB, FAILED, ENDED, ALONE = 1, 2, 4, 8
_DROPPED_AT, _FLAGS_AT = 24, 64

_OPS = {op: number for number, op in enumerate(LOGGED)}
_DTYPES = {name: number for number, name in enumerate(DTYPE_NAME)}
_REDUCES = {name: number for number, name in enumerate(REDUCE_NAMES)}

BACKEND_NOTE = "backend"
"""Kind of the note that names the backend of the default group."""
MOST_THREADS = 255
"""Threads that are told apart; the rest share the last number."""
NOBODY = -1
ANYBODY = -2


class Kind(IntEnum):
    """What a record says."""

    STRING = 1
    CALL = 2
    WAIT = 3
    DONE = 4
    UNSEEN = 5
    BACKWARD = 6
    DROP = 7
    CREATED = 8
    NOTE = 9
    WITNESS = 10
    PLACE = 11
    PASS = 12
    THREAD = 13
    MET = 14
    STARTED = 15
    BEGUN = 16
    JOINED = 17
    HOLDS = 18
    VALUES = 19


@dataclass(frozen=True)
class Entry:
    """One record of a log. ``argument`` is a handle, a group or a string, by kind.

    Attributes:
        kind: What it says.
        argument: Handle of a call, a wait or a drop; else the number of a string.
        stack: Number of the string that holds the call stack, 0 without one.
        time: Nanoseconds of the monotonic clock.
        fields: Of a call: operation, group, sizes, peer, as in plan files.
        thread: Number of the calling thread in this log, from 1; 0 where it is not recorded.
        batch: Number of the launch, of a call; 0 outside of one.
    """

    kind: Kind
    argument: int
    stack: int
    time: int
    fields: dict[str, Any] | None = None
    thread: int = 0
    batch: int = 0


@dataclass(frozen=True)
class RunLog:
    """What one process wrote.

    Attributes:
        file: Where it was read from.
        pid: Process.
        rank: Global rank.
        world_size: Number of ranks of the run.
        attempt: How often the job had been started anew before this process began.
        run: What all ranks of one start share, and those of no other; empty where it is not known.
        began: Nanoseconds of the clock on the wall when the log was begun.
        has_group: The process made a process group.
        is_stub: Nothing was communicated.
        has_failed: An exception ended the process.
        has_ended: The process came to its end.
        entries: Committed records in order, without the strings.
        strings: Strings by number.
        dropped: Records that did not fit.
        torn: Records that were begun and not committed; 1 also where the file was cut.
    """

    file: str
    pid: int
    rank: int
    world_size: int
    is_stub: bool
    has_failed: bool
    has_ended: bool
    entries: tuple[Entry, ...]
    strings: dict[int, Any]
    dropped: int
    torn: int
    attempt: int = 0
    run: str = ""
    began: int = 0
    has_group: bool = True


class RunLogWriter:
    """Writes one log; safe to call from several threads.

    Args:
        folder: Where the log goes.
        rank: Global rank of this process.
        world_size: Number of ranks.
        stub: Nothing is communicated.
        most_bytes: Size that the log may reach.
        attempt: How often the job was started anew before.
        run: What all ranks of this start share.
        has_group: The process makes a process group; without one it has ledger entries only.

    Raises:
        UsageError: The folder cannot be written, or the disk is full.
    """

    def __init__(
        self,
        folder: str | Path,
        rank: int,
        world_size: int,
        *,
        stub: bool = False,
        most_bytes: int = MOST_BYTES,
        attempt: int = 0,
        run: str = "",
        has_group: bool = True,
    ) -> None:
        name = f"rank{rank}-{os.getpid()}" if has_group else _name_beside(os.getpid())
        self.path = Path(folder) / f"{name}{SUFFIX}"
        self.world_size = world_size
        self._most = max(most_bytes, 2 * HEADER_BYTES)
        self._lock = threading.Lock()
        self._is_copy = False
        _writers.add(self)
        self._strings: dict[str, int] = {}
        self._threads: dict[int, int] = {}
        self._dropped = 0
        self._at = HEADER_BYTES
        self._flags = (STUB if stub else 0) | (0 if has_group else ALONE)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            self._size = min(FIRST_BYTES, self._most)
            # Without its blocks a full disk would end the process at the first store.
            os.posix_fallocate(self._file, 0, self._size)
        except OSError as error:
            raise UsageError(
                f"the log {self.path} cannot be written: {error.strerror}",
                hint="choose another folder with -o",
            ) from None
        self._map = mmap.mmap(self._file, self._size)
        now = time.time_ns(), monotonic_ns()
        HEADER.pack_into(
            self._map, 0, MAGIC, VERSION, HEADER_BYTES, self._size, 0, os.getpid(), *now,
            rank, world_size, self._flags, attempt, run.encode()[:16],
        )  # fmt: skip

    def string(self, text: str) -> int:
        """Return the number of a JSON text, written when it is new."""
        number = self._strings.get(text)
        if number is not None or self._is_copy:
            return number or 0
        data = text.encode()
        with self._lock:
            number = self._strings.setdefault(text, len(self._strings) + 1)
            length = (STRING.size + len(data) + 7) & ~7
            if self._has(length):
                at = self._at
                STRING.pack_into(self._map, at, 0, Kind.STRING, number, len(data))
                self._map[at + STRING.size : at + STRING.size + len(data)] = data
                self._commit(at, length)
        return number

    def small(self, kind: Kind, argument: int, stack: int = 0, thread: int = 0) -> None:
        """Write a record without call fields; ``thread`` is the native id of another thread."""
        if self._is_copy:
            return
        native = thread or get_native_id()
        number = self._threads.get(native)
        with self._lock:
            if number is None:
                number = self._new_thread(native)
            self._small(kind, number, argument, stack)

    def _small(self, kind: int, thread: int, argument: int, stack: int) -> None:
        # Beside a step that computes this is not in the processor's caches: every call of another
        # function, and every look-up of a name, counts several times. So it is written out here.
        at = self._at
        if at + SMALL_ROOM <= self._size or self._has(SMALL_BYTES):
            pack_small(self._map, at, 0, kind, thread, argument, stack, monotonic_ns())
            self._at = at + SMALL_BYTES
            pack_word(self._map, at, SMALL_BYTES | COMMITTED)

    def _new_thread(self, native: int) -> int:
        """Return the number of a thread that is new: it gets a record with its native id."""
        number = self._threads.setdefault(native, min(len(self._threads) + 1, MOST_THREADS))
        self._small(Kind.THREAD, number, native & 0xFFFFFFFF, 0)
        return number

    def call(
        self,
        kind: Kind,
        op: str,
        *,
        work: int,
        group: int,
        stack: int,
        batch: int,
        fields: dict[str, Any],
        thread: int = 0,
    ) -> None:
        """Write a call; ``thread`` is the native id of the thread that it stands for."""
        if self._is_copy:
            return
        native = thread or get_native_id()
        get = fields.get
        peer = get("peer", get("root", NOBODY))
        extra = 0
        if not _RARE.isdisjoint(fields):
            rest = {name: fields[name] for name in RARE if name in fields}
            extra = self.string(json.dumps(rest))
        with self._lock:
            if native not in self._threads:
                self._new_thread(native)
            at = self._at
            if at + CALL_ROOM > self._size and not self._has(CALL_BYTES):
                return
            pack_call(
                self._map, at, 0, kind, _OPS[op], _DTYPES[get("dtype", "")],
                _REDUCES[get("reduce_op", "")], work, group,
                ANYBODY if peer == "any" else peer, get("tag", 0), stack,
                native & 0xFFFFFFFF, batch, extra, get("count", get("bytes", 0)), monotonic_ns(),
            )  # fmt: skip
            self._at = at + CALL_BYTES
            pack_word(self._map, at, CALL_BYTES | COMMITTED)

    def end(self, *, failed: bool = False) -> None:
        """Say that the process came to its end."""
        if self._is_copy:
            return
        self._flags |= ENDED | (FAILED if failed else 0)
        struct.pack_into("<I", self._map, _FLAGS_AT, self._flags)

    def failed(self) -> None:
        """Say that an exception ends the process."""
        if self._is_copy:
            return
        self._flags |= FAILED
        struct.pack_into("<I", self._map, _FLAGS_AT, self._flags)

    def _has(self, length: int) -> bool:
        """Make room for a record and the zero word behind it; count the record where none is."""
        if self._at + length + 4 <= self._size or self._grown(length):
            return True
        self._dropped += 1
        struct.pack_into("<Q", self._map, _DROPPED_AT, self._dropped)
        return False

    def _grown(self, length: int) -> bool:
        size = min(max(self._size * 2, self._size + length + 4), self._most)
        if self._at + length + 4 > size:
            return False
        try:
            os.posix_fallocate(self._file, 0, size)
            self._map.resize(size)
        except OSError:
            self._most = self._size  # a full disk: the rest is counted
            return False
        self._size = size
        struct.pack_into("<Q", self._map, 16, size)
        return True

    def _commit(self, at: int, length: int) -> None:
        self._at = at + length
        pack_word(self._map, at, length | COMMITTED)

    def _forked(self) -> None:
        # The map is shared with the parent: handles that die here, or the end of this process,
        # are none of its calls. The lock may be held by a thread that this process has not.
        self._is_copy = True


def _name_beside(process: int) -> str:
    """Return a name without a digit: whoever reads ranks from names finds none."""
    letters = "".join("abcdefghij"[int(digit)] for digit in str(process))
    return f"beside-{letters}"


def mark_cut(folder: Path) -> None:
    """Say in every log of a folder that its process was ended from outside.

    A program may catch the interruption and come to its end all the same (torch's ``spawn`` does);
    what it would have done is still not in its log.
    """
    for path in folder.glob(f"*{SUFFIX}"):
        if path.stat().st_size < HEADER_BYTES:
            continue  # its process was ended before it had a header: no log at all
        with path.open("r+b") as file, mmap.mmap(file.fileno(), HEADER_BYTES) as data:
            (flags,) = struct.unpack_from("<I", data, _FLAGS_AT)
            struct.pack_into("<I", data, _FLAGS_AT, flags | FAILED)


_writers: weakref.WeakSet[RunLogWriter] = weakref.WeakSet()


def _in_child() -> None:
    for writer in list(_writers):
        writer._forked()  # noqa: SLF001 - of this module


os.register_at_fork(after_in_child=_in_child)

RARE = ("in_splits", "out_splits", "kind", "ops")
_RARE = frozenset(RARE)
