"""Plain records of an execution plan of MSCCL++."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

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

    Operations that are written alike are one event; ``Block.place`` says where each stands.

    Attributes:
        name: Name of the operation.
        waits: Counters that it lowers.
        signals: Counters that it raises.
        reads: Packets that it waits for.
        writes: Packets that it writes.
        barrier: Barrier of the gpu and the number of thread blocks that it wants, or None.
        moves: Whether it moves or computes data.
    """

    name: str
    waits: tuple[Counter, ...] = ()
    signals: tuple[Counter, ...] = ()
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    barrier: tuple[int, int] | None = None
    moves: bool = False

    @property
    def is_alone(self) -> bool:
        """Whether it has nothing to do with other operations."""
        return not (self.waits or self.signals or self.reads or self.writes)


@dataclass(frozen=True)
class Block:
    """A thread block.

    Attributes:
        events: Its operations.
        path: JSON path of its list of operations.
        steps: Where each of them stands: its place in that list; of one in a pipeline, the place
            of the pipeline, that in its list, and the iteration.
    """

    events: tuple[Event, ...]
    path: str
    steps: tuple[int | tuple[int, int, int], ...]

    @cached_property
    def different(self) -> list[Event]:
        """The events that are written differently, in order of appearance."""
        return list({id(event): event for event in self.events}.values())

    @cached_property
    def active(self) -> list[tuple[int, Event]]:
        """The events that have to do with others, each with its place."""
        alone = {id(event) for event in self.different if event.is_alone}
        return [(at, event) for at, event in enumerate(self.events) if id(event) not in alone]

    def place(self, at: int) -> str:
        """Return where an event stands."""
        step = self.steps[at]
        if isinstance(step, int):
            return f"{self.path}[{step}]"
        return f"{self.path}[{step[0]}].ops[{step[1]}] iteration {step[2]}"


@dataclass(frozen=True)
class Program:
    """A whole execution plan, pipelines unrolled.

    Attributes:
        file: Where it comes from.
        name: Its name.
        gpus: Number of gpus.
        blocks: Thread blocks in the order of the document.
        pipelines: Most iterations of a pipeline; 0 if there is none.
        double_scratch: Whether two launches in a row use different halves of the scratch buffer.
        looped_packets: Whether a pipeline moves packets more than once.
        unsynchronized: Where operations need what other threads of their block did, without a nop
            between them.
    """

    file: str
    name: str
    gpus: int
    blocks: dict[BlockId, Block]
    pipelines: int
    double_scratch: bool
    looped_packets: bool
    unsynchronized: tuple[str, ...]
