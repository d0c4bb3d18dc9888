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
    """The operations of a thread block since its threads were joined.

    Attributes:
        missing: Where a join is missing.
    """

    def __init__(self, block: str) -> None:
        self.missing: list[str] = []
        self._block = block
        self._start()

    def _start(self) -> None:
        self._waits = 0
        self._moved = False
        self._put = False
        self._reads: list[Chunks] = []
        self._writes: list[Chunks] = []

    def add(self, event: Event, *, port: bool, reads: list[Chunks], writes: list[Chunks]) -> None:
        """Take the next operation.

        Args:
            event: The operation.
            port: Whether it is one of a port channel, where thread i puts and signals alone.
            reads: Stretches of the gpu's own buffers that it reads without waiting for packets.
            writes: Those that it writes, without packets.
        """
        if event.name in SYNCS:
            self._start()
            return
        signals = len(event.signals)
        # A wait of one thread orders what the same thread signals after it, and nothing else.
        late = self._waits and (event.moves or (signals and (signals, self._waits) != (1, 1)))
        # What all threads wrote is there for nobody who is told so by one of them; a port is told
        # by the thread that put, in order.
        early = bool(signals) and (self._moved or (self._put and not port))
        # Packets that an operation reads come after what their writers needed, which orders it.
        shared = not event.reads and (
            _meet(reads, self._writes) or _meet(writes, self._writes) or _meet(writes, self._reads)
        )
        if late or early or shared:
            self.missing.append(f"{self._block} {event.name} ({event.place})")
        self._waits = max(self._waits, len(event.waits))
        if event.moves:
            self._moved |= not port
            self._put |= port
            self._reads += reads
            self._writes += writes


def _meet(some: list[Chunks], others: list[Chunks]) -> bool:
    return any(
        one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
        for one in some
        for other in others
    )
