"""Reads the logs that ``run_log`` writes: untrusted bytes, of which only whole records count."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from planguard.capture.run.log import (
    ALONE,
    ANYBODY,
    CALL,
    COMMITTED,
    ENDED,
    FAILED,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MOST_BYTES,
    MOST_RANKS,
    NOBODY,
    RARE,
    SMALL,
    STRING,
    STUB,
    VERSIONS,
    Entry,
    Kind,
    RunLog,
)
from planguard.errors import PlanError
from planguard.plan.actions import DTYPE_NAME, REDUCE_NAMES
from planguard.plan.vocabulary import BLOCKING, LOGGED


def read_run_log(path: str | Path) -> RunLog:
    """Read one log.

    Raises:
        PlanError: The file is not such a log, or is damaged.
    """
    file = Path(path)
    if file.stat().st_size > 4 * MOST_BYTES:
        raise PlanError("the log is larger than 1 GiB", file=str(file), path="header")
    return parse_run_log(file.read_bytes(), str(file))


def attempt_of(data: bytes) -> int:
    """Return how often the job had been started anew before the process of a log began."""
    return int(HEADER.unpack_from(data)[11])


def parse_run_log(data: bytes, file: str) -> RunLog:
    """Read the bytes of one log.

    Raises:
        PlanError: They are not such a log, or are damaged.
    """
    if len(data) < HEADER_BYTES or data[:8] != MAGIC:
        hint = "planguard dryrun writes rankR-PID.pgrun"
        raise PlanError("not a log of a recorded run", file=file, path="0", hint=hint)
    head = HEADER.unpack_from(data)
    _, version, header, size, dropped, pid, began, _, rank, world, flags, attempt, run = head
    if version not in VERSIONS or header != HEADER_BYTES:
        hint = "read it with the version of planguard that wrote it"
        raise PlanError("unknown version", file=file, path="8", value=version, hint=hint)
    if not 1 <= world <= MOST_RANKS or not 0 <= rank < world:
        raise PlanError(f"no such rank of {world:,}", file=file, path="56", value=rank)
    strings: dict[int, Any] = {}
    try:
        entries, end = _entries(data, strings)
    except (struct.error, ValueError, LookupError, TypeError, RecursionError) as error:
        raise PlanError(f"the log is damaged: {error}", file=file, path="records") from None
    # A file shorter than its header says was cut, maybe between two records.
    torn = int(len(data) < size or any(data[end : end + CALL.size]))
    return RunLog(
        file, pid, rank, world, bool(flags & STUB), bool(flags & FAILED),
        bool(flags & ENDED), entries, strings, dropped, torn,
        attempt, run.rstrip(b"\0").decode("ascii", "replace"), began, not flags & ALONE,
    )  # fmt: skip


def _entries(data: bytes, strings: dict[int, Any]) -> tuple[tuple[Entry, ...], int]:
    """Return the committed records, and where they end."""
    found: list[Entry] = []
    threads: dict[int, int] = {}
    at = HEADER_BYTES
    while at + 4 <= len(data):
        (word,) = struct.unpack_from("<I", data, at)
        if not word & COMMITTED:
            break
        length = word & ~COMMITTED
        if length < SMALL.size - 8 or at + length > len(data):
            raise ValueError(f"a record of {length} bytes at {at}")
        kind = Kind(data[at + 4])
        if kind is Kind.STRING:
            _, _, number, size = STRING.unpack_from(data, at)
            begin = at + STRING.size
            strings[number] = json.loads(data[begin : begin + size])
        elif kind in (Kind.CALL, Kind.WITNESS):
            found.append(_call(kind, CALL.unpack_from(data, at), strings, threads))
        else:
            _, _, thread, argument, stack, stamp = SMALL.unpack_from(data, at)
            if kind is Kind.THREAD:
                threads[argument] = thread
            else:
                found.append(Entry(kind, argument, stack, stamp, None, thread))
        at += length
    return tuple(found), at


def _call(
    kind: Kind, row: tuple[int, ...], strings: dict[int, Any], threads: dict[int, int]
) -> Entry:
    _, _, op, dtype, reduce_op, work, group, peer, tag, stack, thread, batch, extra, size, at = row
    fields: dict[str, Any] = {"op": LOGGED[op], "group": strings[group]}
    name = LOGGED[op]
    if name in BLOCKING:
        fields |= {"peer": "any" if peer == ANYBODY else peer, "tag": tag}
    elif peer != NOBODY:
        fields["root"] = peer
    if REDUCE_NAMES[reduce_op]:
        fields["reduce_op"] = REDUCE_NAMES[reduce_op]
    rest = strings[extra] if extra else {}
    if DTYPE_NAME[dtype]:
        fields |= {"count": size, "dtype": DTYPE_NAME[dtype]}
    elif name != "barrier" and "ops" not in rest:
        fields["bytes"] = size
    fields |= {name: rest[name] for name in RARE if name in rest}
    return Entry(kind, work, stack, at, fields, threads.get(thread, 0), batch)
