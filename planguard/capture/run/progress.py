"""Whether a run that is being recorded goes on, told from its logs while they grow.

A log is mapped into memory, so neither its size nor its time says anything: the records do. A job
is only taken to hang while somebody waits. Ranks that compute for an hour and wait for nobody are
no hang; one that computes while the others wait for it may be.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.capture.run.log import (
    CALL,
    COMMITTED,
    ENDED,
    HEADER,
    HEADER_BYTES,
    SMALL,
    SUFFIX,
    Kind,
)

if TYPE_CHECKING:
    from pathlib import Path


_NO_CALLS = frozenset(
    {Kind.STRING, Kind.WITNESS, Kind.NOTE, Kind.PLACE, Kind.PASS, Kind.THREAD}
    | {Kind.STARTED, Kind.BEGUN, Kind.JOINED}
)


@dataclass
class _Log:
    """What is known of one log.

    Attributes:
        at: Where its next record will be.
        rank: Global rank.
        world: Number of ranks.
        attempt: How often the job had been started anew.
        has_ended: The process came to its end.
        open: Calls that nobody has seen done.
        unseen: Those among them that a backward pass waits for.
        launches: Calls of the launch that a call is in, by the call and by minus the launch: one
            wait is enough for all of them.
        kind: Kind of the last record.
    """

    at: int = HEADER_BYTES
    rank: int = 0
    world: int = 1
    attempt: int = 0
    has_ended: bool = False
    open: set[int] = field(default_factory=set)
    unseen: set[int] = field(default_factory=set)
    launches: dict[int, set[int]] = field(default_factory=dict)
    kind: int = 0

    @property
    def is_waiting(self) -> bool:
        """Whether its rank may stand in a communication, or in the making of a group."""
        return not self.has_ended and (bool(self.open) or self.kind in (Kind.CREATED, Kind.MET))


class Watch:
    """Looks at the logs of a folder again and again.

    Args:
        folder: Where the ranks write them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[str, _Log] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether somebody waits: in a communication, or for a rank that has no log yet."""
        # Ranks of an earlier attempt wait for nobody any more, whatever they left open.
        last = max((log.attempt for log in self._logs.values()), default=0)
        logs = [log for log in self._logs.values() if log.attempt == last]
        if any(log.is_waiting for log in logs):
            return True
        ranks = {log.rank for log in logs}
        return any(len(ranks) < log.world and not log.has_ended for log in logs)

    def has_moved(self) -> bool:
        """Tell whether any rank wrote anything since the last look."""
        moved = False
        for file in sorted(self._folder.glob(f"*{SUFFIX}")):
            known = self._logs.get(file.name)
            log = known or _Log()
            try:
                moved = _read(file, log) or known is None or moved
            except (OSError, ValueError, struct.error):
                continue  # it is being made
            self._logs[file.name] = log
        return moved


def _read(file: Path, log: _Log) -> bool:
    """Take the records that are new; tell whether there are any."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        *_, log.rank, log.world, flags, log.attempt, _ = HEADER.unpack_from(data)
        before = log.at, log.has_ended
        log.has_ended = bool(flags & ENDED)
        while log.at + SMALL.size <= len(data):
            (word,) = struct.unpack_from("<I", data, log.at)
            length = word & ~COMMITTED
            if not word & COMMITTED or not length:
                break
            _take(data, log)
            log.at += length
        return (log.at, log.has_ended) != before


def _take(data: mmap.mmap, log: _Log) -> None:
    kind = data[log.at + 4]
    if kind in _NO_CALLS:
        return
    log.kind = kind
    if kind == Kind.CALL:
        row = CALL.unpack_from(data, log.at)
        work, launch = row[5], row[11]
        log.open.add(work)
        if launch:
            log.launches[work] = log.launches.get(-launch, set())
            log.launches[-launch] = log.launches[work]
            log.launches[work].add(work)
        return
    number = SMALL.unpack_from(data, log.at)[3]
    if kind in (Kind.DONE, Kind.DROP):
        log.open -= log.launches.pop(number, {number})
    elif kind == Kind.UNSEEN:
        log.unseen.add(number)
    elif kind == Kind.BACKWARD:
        log.open -= log.unseen
        log.unseen.clear()
