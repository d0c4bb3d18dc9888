"""What the threads of a thread block do between two ``nop``, and what needed one.

Thread i handles the i-th channel or semaphore of an operation, all threads move data together, and
a ``nop`` (``__syncthreads``) or a barrier joins them: MSCCL++'s ``execution_kernel.hpp``. The plan
takes operations one after the other, so an operation that needs what *other* threads did must stand
behind a join. Where it does not, data may be used before they are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from .model import Event

Chunks = tuple[str, int, int]
"""Buffer, first chunk, and the one after the last."""
SYNCS = frozenset({"nop", "barrier"})
_KEPT = 64
"""Operations behind a join of which it is kept what they lead to."""


class _Since(Struct):
    """What the threads did since they were joined.

    Attributes:
        waits: Most threads that waited at once.
        moved: Whether they moved data, other than through a port channel.
        put: Whether they moved data through one.
        reads: Stretches of the gpu's own buffers that they read without waiting for packets.
        writes: Those that they wrote, without packets.
        depth: Operations since then that changed any of this.
        after: What follows an operation, and whether a join is missing before it, by the event.
    """

    waits: int = 0
    moved: bool = False
    put: bool = False
    reads: list[Chunks] = []
    writes: list[Chunks] = []
    depth: int = 0
    after: dict[int, tuple[_Since, bool]] = {}


class Joins:
    """The operations of a thread block since its threads were joined.

    A thread block does the same between two joins again and again: what it leads to is kept.
    """

    def __init__(self) -> None:
        self._joined = self._since = _Since()

    def is_late(
        self, event: Event, *, port: bool, reads: list[Chunks], writes: list[Chunks]
    ) -> bool:
        """Take the next operation, and tell whether a join is missing before it.

        Args:
            event: The operation; one that is written alike and does the same may be the same.
            port: Whether it is one of a port channel, where thread i puts and signals alone.
            reads: Stretches of the gpu's own buffers that it reads without waiting for packets.
            writes: Those that it writes, without packets.
        """
        since = self._since
        found = since.after.get(id(event))
        if found is None:
            late = _is_late(since, event, reads, writes, port=port)
            found = self._next(since, event, reads, writes, port=port), late
            if since.depth < _KEPT:
                since.after[id(event)] = found
        self._since, late = found
        return late

    def _next(
        self, since: _Since, event: Event, reads: list[Chunks], writes: list[Chunks], *, port: bool
    ) -> _Since:
        if event.name in SYNCS:
            return self._joined if since.waits or since.moved or since.put else since
        waits = max(since.waits, len(event.waits))
        if not event.moves and waits == since.waits:
            return since
        then = _Since(waits, since.moved, since.put, since.reads, since.writes, since.depth + 1)
        if event.moves:
            then.moved |= not port
            then.put |= port
            then.reads, then.writes = since.reads + reads, since.writes + writes
        return then


def _is_late(
    since: _Since, event: Event, reads: list[Chunks], writes: list[Chunks], *, port: bool
) -> bool:
    if event.name in SYNCS:
        return False
    signals, moves = len(event.signals), event.moves
    # A wait of one thread orders what the same thread signals after it, and nothing else.
    late = since.waits and (moves or (signals and (signals, since.waits) != (1, 1)))
    # What all threads wrote is there for nobody who is told so by one of them; a port is told
    # by the thread that put, in order.
    early = signals and (since.moved or (since.put and not port))
    # Packets that an operation reads come after what their writers needed, which orders it.
    shared = not event.reads and (
        _meet(reads, since.writes) or _meet(writes, since.writes) or _meet(writes, since.reads)
    )
    return bool(late or early or shared)


def _meet(some: list[Chunks], others: list[Chunks]) -> bool:
    return bool(some and others) and any(
        one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
        for one in some
        for other in others
    )
