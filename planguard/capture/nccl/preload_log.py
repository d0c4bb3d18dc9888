"""The log format of the NCCL interposer and the profiler plugin (native/preload/log.h)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from planguard.errors import PlanError

MAGIC = b"PGNCCL1\0"
HEADER_BYTES = 4096
_HEADER = struct.Struct("<8sIIQQQQQiiI")
_RECORD = struct.Struct("<IHBBQQQQiIiIQ")
_COMMITTED = 0x80000000
SUFFIX = ".pglog"
MOST_BYTES = 1 << 34


@dataclass(frozen=True)
class Entry:
    """One record of a log; ``phase`` is 0 before a call, 1 after it, 2 when its kernels ended."""

    op: int
    phase: int
    dtype: int
    time: int
    comm: int
    count: int
    stream: int
    peer: int
    thread: int
    result: int
    redop: int
    caller: int


@dataclass(frozen=True)
class Log:
    """The log of one process.

    Attributes:
        file: Where it was read from.
        pid: Process id.
        rank: Environment variable RANK, or None.
        world_size: Environment variable WORLD_SIZE, or None.
        stub: Calls returned success and moved nothing.
        profiler: Written by the profiler plugin, which tells when operations completed.
        mpi: Its records are calls of MPI (native/preload/mpi.cpp).
        entries: The committed records.
        dropped: Records that did not fit.
        torn: Records that were begun and not committed.
    """

    file: str
    pid: int
    rank: int | None
    world_size: int | None
    stub: bool
    profiler: bool
    entries: tuple[Entry, ...]
    dropped: int
    torn: int
    mpi: bool = False


def read_log(path: str | Path) -> Log:
    """Read one log.

    Raises:
        PlanError: The file is not a log of the interposer, or is damaged.
    """
    file = Path(path)
    if file.stat().st_size > MOST_BYTES:
        raise PlanError("the log is larger than 16 GiB", file=str(file), path="header")
    data = file.read_bytes()
    if len(data) < HEADER_BYTES or data[:8] != MAGIC:
        hint = "the interposer writes nccl-PID.pglog"
        raise PlanError("not a log of the NCCL interposer", file=str(file), path="0", hint=hint)
    _, version, size, capacity, head, pid, _, _, rank, world, flags = _HEADER.unpack_from(data)
    if version != 1 or size != _RECORD.size:
        hint = "read it with the version of planguard that wrote it"
        raise PlanError("unknown version", file=str(file), path="8", value=version, hint=hint)
    if HEADER_BYTES + capacity * size > len(data):
        raise PlanError("the log is cut short", file=str(file), path="16", value=capacity)
    kept = min(head, capacity)
    records = _RECORD.iter_unpack(data[HEADER_BYTES : HEADER_BYTES + kept * size])
    entries = tuple(Entry(*fields[1:]) for fields in records if fields[0] & _COMMITTED)
    return Log(
        str(file),
        pid,
        None if rank < 0 else rank,
        None if world < 0 else world,
        bool(flags & 1),
        bool(flags & 2),
        entries,
        dropped=head - kept,
        torn=kept - len(entries),
        mpi=bool(flags & 4),
    )
