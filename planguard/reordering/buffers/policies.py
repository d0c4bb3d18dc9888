"""The policies of fused buffers: a member arrives, or is waited for; what is flushed?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from planguard.reordering.buffers.flushes import dealt, is_filled, launch_order, split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.reordering.buffers.rank import Held
    from planguard.semantics.fusion import Buckets

Bucket = tuple[int, ...]


@dataclass(frozen=True)
class Agreed:
    """What the ranks of a coordinated buffer agreed on.

    Attributes:
        buckets: Names of the members of every flush, in the agreed order.
        by_name: Members are matched by their names and not by position, each in a group of its own.
        cluster: Buffers that are launched together, when all members of all of them are ready: what
            an order that does not matter is taken to be. None: each bucket when its turn comes.
        background: What a launch is issued on where nobody else uses it, and hosts stand there
            until all ranks have submitted; None: on the group of the buffer.
    """

    buckets: tuple[frozenset[str], ...]
    by_name: bool = False
    cluster: str | None = None
    background: str | None = None


def own_of(group: str) -> str:
    """Return the group on which the background of a group launches."""
    return f"background of {group}"


class Policy(Protocol):
    """When a rank flushes what."""

    def arrive(self, member: int) -> list[Bucket]:
        """Return what is flushed when a member becomes ready."""
        ...

    def force(self, member: int) -> list[Bucket]:
        """Return what is flushed when a member that was not flushed is waited for."""
        ...

    def group(self, flush: Bucket) -> str | None:
        """Return the group of a flush where it is not that of the buffer."""
        ...


def make_policy(held: Held, agreed: dict[str, Agreed]) -> Policy:
    """Return the machine of a buffer on one rank."""
    buffer, ready = held.buffer, held.ready
    if buffer.id in agreed:
        return Coordinated(held, agreed[buffer.id])
    if is_filled(buffer):
        return _Filled(held)
    buckets = dealt(buffer, ready, held.cap)
    if buffer.launch == "ordered":
        return _InOrder(held, launch_order(ready, buckets))
    return _WhenReady(held, *split(buffer, buckets))


class _Base:
    def __init__(self, held: Held) -> None:
        self.held = held
        self.arrived: set[int] = set()

    def sorted(self, members: Sequence[int]) -> Bucket:
        """Return members as a flush holds them: in declared order."""
        inside = set(members)
        return tuple(at for at in self.held.ready.declared if at in inside)

    def force(self, member: int) -> list[Bucket]:
        return []

    def group(self, flush: Bucket) -> str | None:
        return None


class _Filled(_Base):
    """What does not fit flushes what is there; so does a wait for something in it."""

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self.inside: list[int] = []
        self.room = held.cap

    def arrive(self, member: int) -> list[Bucket]:
        size = self.held.ready.sizes[member]
        flushed = self._flush() if self.inside and size > self.room else []
        self.inside.append(member)
        self.room -= size
        return flushed

    def force(self, member: int) -> list[Bucket]:
        return self._flush() if member in self.inside else []

    def _flush(self) -> list[Bucket]:
        flushed = self.sorted(self.inside)
        self.inside, self.room = [], self.held.cap
        return [flushed]


class _InOrder(_Base):
    """A bucket leaves when it and all before it are ready."""

    def __init__(self, held: Held, buckets: Buckets) -> None:
        super().__init__(held)
        self.waiting = list(buckets)

    def arrive(self, member: int) -> list[Bucket]:
        self.arrived.add(member)
        flushed = []
        while self.waiting and self.arrived.issuperset(self.waiting[0]):
            flushed.append(self.sorted(self.waiting.pop(0)))
        return flushed


class _WhenReady(_Base):
    """A bucket leaves when it is ready; drained ones when everything is, in order."""

    def __init__(self, held: Held, first: Buckets, last: Buckets) -> None:
        super().__init__(held)
        self.last = last
        self.bucket_of = {member: bucket for bucket in first for member in bucket}

    def arrive(self, member: int) -> list[Bucket]:
        self.arrived.add(member)
        bucket = self.bucket_of.get(member)
        done = [bucket] if bucket is not None and self.arrived.issuperset(bucket) else []
        if len(self.arrived) == len(self.held.elements):
            done += self.last
        return [self.sorted(bucket) for bucket in done]


class Coordinated(_Base):
    """Flushes follow the agreed order; what a rank lacks never leaves, nor what is behind it."""

    def __init__(self, held: Held, agreed: Agreed) -> None:
        super().__init__(held)
        self.agreed = agreed
        self.at = {held.ready.name(at): at for at in range(len(held.elements))}
        self.waiting = list(agreed.buckets)

    def arrive(self, member: int) -> list[Bucket]:
        """Return what leaves at once: a member by its name, or the buckets whose turn it is."""
        self.arrived.add(member)
        if self.agreed.by_name:
            return [(member,)]
        return [] if self.agreed.cluster is not None else self.due()

    def due(self) -> list[Bucket]:
        """Return the agreed flushes whose turn has come."""
        flushed = []
        while self.waiting and all(
            name in self.at and self.at[name] in self.arrived for name in self.waiting[0]
        ):
            flushed.append(self.sorted([self.at[name] for name in self.waiting.pop(0)]))
        return flushed

    def group(self, flush: Bucket) -> str | None:
        """Return the group that stands for matching by name, or that of the background."""
        if not self.agreed.by_name:
            return self.agreed.background
        name, buffer = self.held.ready.name(flush[0]), self.held.buffer.id
        # Names say anything: two members must not come to one group.
        return f"{name!r} of {buffer!r}" if " of " in name + buffer else f"{name} of {buffer}"
