"""Plain records of an execution plan of MSCCL++."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from msgspec import Struct

BlockId = tuple[int, int]
"""A gpu and one of its thread blocks."""


class Counter(Struct, frozen=True):
    """A counter that some thread blocks raise and others lower.

    Attributes:
        kind: ``memory`` or ``port`` for the semaphore of a channel, ``semaphore`` for one of a gpu.
        src: Gpu that raises it.
        dst: Gpu that waits for it.
        number: Which one of those between the two gpus, or of the gpu.
        initial: Its value at the start.
    """

    kind: str
    src: int
    dst: int
    number: int
    initial: int = 0

    def __str__(self) -> str:
        if self.kind == "semaphore":
            return f"gpu {self.src} semaphore {self.number}"
        return f"{self.kind} {self.src}>{self.dst} #{self.number}"


class Span(Struct, frozen=True):
    """A stretch of packets in the scratch buffer of a gpu, in chunks."""

    gpu: int
    low: Fraction
    high: Fraction

    def meets(self, other: Span) -> bool:
        """Tell whether two stretches have packets in common."""
        return self.gpu == other.gpu and self.low < other.high and other.low < self.high

    def __str__(self) -> str:
        return f"gpu {self.gpu} s[{self.low}:{self.high}]"


class Event(Struct, frozen=True):
    """One operation of a thread block: what it waits for, then what it lets others do.

    Attributes:
        name: Name of the operation.
        place: Its JSON path.
        waits: Counters that it lowers.
        signals: Counters that it raises.
        reads: Packets that it waits for.
        writes: Packets that it writes.
        barrier: Barrier of the gpu and the number of thread blocks that it wants, or None.
        moves: Whether it moves or computes data.
    """

    name: str
    place: str
    waits: tuple[Counter, ...] = ()
    signals: tuple[Counter, ...] = ()
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    barrier: tuple[int, int] | None = None
    moves: bool = False


@dataclass(frozen=True)
class Program:
    """A whole execution plan, pipelines unrolled.

    Attributes:
        file: Where it comes from.
        name: Its name.
        gpus: Number of gpus.
        blocks: Thread blocks in the order of the document, and their operations.
        pipelines: Most iterations of a pipeline; 0 if there is none.
        double_scratch: Whether two launches in a row use different halves of the scratch buffer.
        looped_packets: Whether a pipeline moves packets more than once.
        unsynchronized: Where operations need what other threads of their block did, without a nop
            between them.
    """

    file: str
    name: str
    gpus: int
    blocks: dict[BlockId, tuple[Event, ...]]
    pipelines: int
    double_scratch: bool
    looped_packets: bool
    unsynchronized: tuple[str, ...]
