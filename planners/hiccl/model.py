"""Plain records of a hierarchical collective, and the messages that it is factored into."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct


class Primitive(Struct, frozen=True, cache_hash=True):
    """A multicast from a root, or a reduction to it.

    Attributes:
        kind: ``multicast`` or ``reduction``.
        root: Rank that has the data, or gets the result.
        others: Ranks that receive, or contribute.
        bytes: Size of the buffer.
        place: JSON path.
    """

    kind: str
    root: int
    others: tuple[int, ...]
    bytes: int
    place: str


class Composition(Struct, frozen=True, cache_hash=True):
    """What one rank believes the collective to be.

    Attributes:
        levels: Members of every level, outermost first; the product is the number of ranks.
        stages: Primitives of every stage; a fence is between two stages.
        stripe: Pieces that the members of the innermost group handle in parallel.
        ring: Whether the outermost groups pass data on in a ring, not in a tree.
        pipeline: Chunks that follow each other through the steps.
    """

    levels: tuple[int, ...]
    stages: tuple[tuple[Primitive, ...], ...]
    stripe: int = 1
    ring: bool = False
    pipeline: int = 1

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        count = 1
        for level in self.levels:
            count *= level
        return count

    @property
    def messages(self) -> int:
        """At least the number of messages that it is made of."""
        each = sum(len(one.others) + 1 for stage in self.stages for one in stage)
        return each * self.stripe * self.pipeline


class Transfer(NamedTuple):
    """A message between two ranks; a description of a line may ask for a million of them."""

    src: int
    dst: int
    bytes: int
    label: str
    place: str

    def between(self, src: int, dst: int) -> Transfer:
        """Return the same message between two other ranks."""
        return Transfer(src, dst, self.bytes, self.label, self.place)

    def turned(self) -> Transfer:
        """Return the same message the other way round."""
        return self.between(self.dst, self.src)


Steps = list[list[Transfer]]
"""Messages of every step; a rank starts those of a step together and waits for all of them."""
