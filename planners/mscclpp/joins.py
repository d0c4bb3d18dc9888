"""What the threads of a thread block do between two ``nop``, and what needed one.

Thread i handles the i-th channel or semaphore of an operation, all threads move data together, and
a ``nop`` (``__syncthreads``) or a barrier joins them: MSCCL++'s ``execution_kernel.hpp``. The plan
takes operations one after the other, so an operation that needs what *other* threads did must stand
behind a join. Where it does not, data may be used before they are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Event

Chunks = tuple[str, int, int]
"""Buffer, first chunk, and the one after the last."""
SYNCS = frozenset({"nop", "barrier"})


class Joins:
    """The operations of a thread block since its threads were joined."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._waits = 0
        self._moved = False
        self._put = False
        self._reads: list[Chunks] = []
        self._writes: list[Chunks] = []

    def is_late(
        self, event: Event, *, port: bool, reads: list[Chunks], writes: list[Chunks]
    ) -> bool:
        """Take the next operation, and tell whether a join is missing before it.

        Args:
            event: The operation.
            port: Whether it is one of a port channel, where thread i puts and signals alone.
            reads: Stretches of the gpu's own buffers that it reads without waiting for packets.
            writes: Those that it writes, without packets.
        """
        if event.name in SYNCS:
            if self._waits or self._moved or self._put:
                self._start()
            return False
        signals, moves = len(event.signals), event.moves
        # A wait of one thread orders what the same thread signals after it, and nothing else.
        late = self._waits and (moves or (signals and (signals, self._waits) != (1, 1)))
        # What all threads wrote is there for nobody who is told so by one of them; a port is told
        # by the thread that put, in order.
        early = signals and (self._moved or (self._put and not port))
        # Packets that an operation reads come after what their writers needed, which orders it.
        shared = not event.reads and (
            _meet(reads, self._writes) or _meet(writes, self._writes) or _meet(writes, self._reads)
        )
        self._waits = max(self._waits, len(event.waits))
        if moves:
            self._moved |= not port
            self._put |= port
            self._reads += reads
            self._writes += writes
        return bool(late or early or shared)


def _meet(some: list[Chunks], others: list[Chunks]) -> bool:
    return bool(some and others) and any(
        one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
        for one in some
        for other in others
    )
