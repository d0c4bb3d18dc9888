"""Plain records of an algorithm of MSCCL."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rrc", "rcs", "rrs", "rrcs"})
LOCAL = frozenset({"cpy", "re", "nop"})
_READ_SOURCE = frozenset({"s", "rrc", "rrs", "rrcs", "cpy", "re"})
_WRITE_DEST = frozenset({"r", "rrc", "rcs", "rrcs", "cpy", "re"})


class Step(Struct, frozen=True):
    """One step of a thread block.

    Attributes:
        kind: ``s r rcs rrc rrs rrcs cpy re nop``.
        source: Buffer and first chunk that it reads, if its kind reads one.
        dest: Buffer and first chunk where the data ends up; a sender names the receiver's.
        count: Chunks.
        waits: Thread block of the same gpu and the step of it that must be done, or None.
        flags: Whether the step tells the other thread blocks that it is done.
        line: Line of the XML.
    """

    kind: str
    source: tuple[str, int]
    dest: tuple[str, int]
    count: int
    waits: tuple[int, int] | None
    flags: bool
    line: int

    @property
    def target(self) -> str:
        """Where the data ends up, ``i[2]``."""
        return f"{self.dest[0]}[{self.dest[1]}]"

    @property
    def reads(self) -> tuple[tuple[str, int], ...]:
        """Own chunks that it reads, as ``play.py`` and MSCCL's kernel read them."""
        if self.count == 1 and self.kind != "re":  # most steps
            return (self.source,) if self.kind in _READ_SOURCE else ()
        starts = [self.source] if self.kind in _READ_SOURCE else []
        starts += [self.dest] if self.kind == "re" else []
        return tuple((buffer, at + n) for buffer, at in starts for n in range(self.count))

    @property
    def writes(self) -> tuple[tuple[str, int], ...]:
        """Own chunks that it writes."""
        if self.kind not in _WRITE_DEST:
            return ()
        if self.count == 1:
            return (self.dest,)
        return tuple((self.dest[0], self.dest[1] + n) for n in range(self.count))


class Block(Struct, frozen=True):
    """A thread block: steps in order, at most one peer to send to and one to receive from."""

    gpu: int
    number: int
    send: int
    recv: int
    channel: int
    steps: tuple[Step, ...]
    line: int


@dataclass(frozen=True)
class Algorithm:
    """A whole algorithm; ``blocks`` are in the order of gpus, then of the document."""

    file: str
    name: str
    protocol: str
    gpus: int
    blocks: tuple[Block, ...]
