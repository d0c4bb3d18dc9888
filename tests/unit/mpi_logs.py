"""Logs of MPI programs as native/preload/mpi.cpp lays them out."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from planguard.capture.mpi.records import ANY, ANY_TAG, COUNTS, FINALIZE, INFO, NOT_FOLLOWED, WAIT
from planguard.capture.nccl.preload_log import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WORLD, OTHER = 0xAB, 0xCD


def record(
    op: int, *, phase: int = 0, comm: int = WORLD, count: int = 0, stream: int = 0, peer: int = -1,
    dtype: int = 5, redop: int = 0, caller: int = 0,
) -> bytes:  # fmt: skip
    """Return one record; ``phase`` is 0 before a call and 1 behind it."""
    return struct.pack(
        "<IHBBQQQQiIiIQ", 64 | 0x80000000, op, phase, dtype, 0, comm, count, stream, peer, 1, 0,
        redop, caller,
    )  # fmt: skip


def both(op: int, **fields: int) -> bytes:
    """Return the records of a call that came back."""
    return record(op, **fields) + record(op, phase=1, **fields)


def write(file: Path, rows: Sequence[bytes]) -> Path:
    """Write a log of calls of MPI."""
    data = b"".join(rows)
    count = len(data) // 64
    header = struct.pack("<8sIIQQQQQiiI", b"PGNCCL1\0", 1, 64, count, count, 9, 0, 0, -1, -1, 4)
    file.write_bytes(header.ljust(HEADER_BYTES, b"\0") + data)
    return file


def named(name: bytes, op: int = NOT_FOLLOWED) -> bytes:
    """Return the record of a function that is not followed, by its name."""
    words = struct.unpack("<QQQQ", name.ljust(32, b"\0"))
    comm, count, stream, caller = words
    return record(op, comm=comm, count=count, stream=stream, caller=caller)


def every_kind(folder: Path) -> list[Path]:
    """Write the logs of two ranks that make calls of every kind that is read."""
    files = []
    for rank in range(2):
        send, receive = both(100, peer=1 - rank, count=8), both(104, peer=1 - rank, count=8)
        rows = [
            record(INFO, count=2, peer=rank),
            *((send, receive) if rank == 0 else (receive, send)),
            both(105, peer=1 - rank, count=16, stream=1, redop=7),
            both(109, peer=ANY, count=16, stream=2, redop=ANY_TAG),
            both(WAIT, stream=1), record(153, stream=2), both(154),
            *(both(op, count=4, peer=0 if op in (120, 121, 126, 127) else -1)
              for op in range(120, 130)),
            both(130), record(INFO, comm=OTHER, count=2, peer=rank), both(122, comm=OTHER, count=4),
            record(COUNTS, comm=4, count=8, redop=0, peer=2),
            record(COUNTS, comm=8, count=4, redop=1, peer=2), both(163, count=0),
            both(157, peer=1 - rank), both(144), named(b"MPI_Start"), named(b"MPI_Iprobe", 151),
            both(122, count=4, redop=200, caller=77), both(122, count=4, stream=9),
            both(WAIT, stream=9), both(FINALIZE),
        ]  # fmt: skip
        files.append(write(folder / f"mpi-{rank}.pglog", rows))
    return files
