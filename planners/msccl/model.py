"""Plain records of an algorithm of MSCCL."""

from __future__ import annotations

from dataclasses import dataclass

SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rrc", "rcs", "rrs", "rrcs"})
LOCAL = frozenset({"cpy", "re", "nop"})


@dataclass(frozen=True)
class Step:
    """One step of a thread block.

    Attributes:
        kind: ``s r rcs rrc rrs rrcs cpy re nop``.
        target: Where the data ends up, ``i[2]``; what a sender says about the receiver's buffer.
        count: Chunks.
        waits: Thread block of the same gpu and the step of it that must be done, or None.
        flags: Whether the step tells the other thread blocks that it is done.
        line: Line of the XML.
    """

    kind: str
    target: str
    count: int
    waits: tuple[int, int] | None
    flags: bool
    line: int


@dataclass(frozen=True)
class Block:
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
