"""When a rank flushes what: the sequence of flushes for one order of readiness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.semantics.fusion import (
    fill_conflict,
    launch_conflict,
    launched,
    pack,
    same_buckets_down_to,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.reordering.buffers.members import Buffer, Ready
    from planguard.semantics.fusion import Buckets, Order


@dataclass(frozen=True)
class Flush:
    """One merged collective.

    Attributes:
        elements: Its members, in the declared order.
        part: Part of the program at whose end it is launched; None: when a member is waited for.
    """

    elements: tuple[int, ...]
    part: int | None


def flushes(buffer: Buffer, ready: Ready, cap: int, order: Sequence[int]) -> list[Flush]:
    """Return the flushes of one rank, in order, when its members become ready in ``order``.

    Args:
        buffer: The policy.
        ready: The members on this rank.
        cap: Capacity, bytes.
        order: An order that readiness admits; only uncoordinated buffers depend on it.
    """
    if is_filled(buffer):
        return _filled(ready, cap, order)
    by_buffer = dealt(buffer, ready, cap)
    if buffer.is_coordinated or buffer.launch == "ordered":
        return _in_order(ready, by_buffer)
    first, last = split(buffer, by_buffer)
    found = [_flush(ready, bucket, _end(ready, bucket)) for bucket in launched(order, first)]
    return found + [_flush(ready, bucket, max(ready.parts)) for bucket in last]


def conflict(buffer: Buffer, ready: Ready, cap: int) -> tuple[Order, Order] | None:
    """Return two orders in which one rank flushes differently, or None (exact)."""
    if is_filled(buffer):
        return fill_conflict(ready.below, ready.sizes, cap)
    if buffer.is_coordinated or buffer.launch == "ordered":
        return None
    return launch_conflict(ready.below, split(buffer, dealt(buffer, ready, cap))[0])


def same_down_to(buffer: Buffer, ready: Ready, cap: int) -> int:
    """Return the least capacity at which the buckets of one rank are those of ``cap``."""
    if is_filled(buffer):
        return same_buckets_down_to(pack(range(len(ready.sizes)), ready.sizes, cap), ready.sizes)
    buckets = [bucket for one in dealt(buffer, ready, cap) for bucket in one]
    return same_buckets_down_to(tuple(buckets), ready.sizes)


def is_filled(buffer: Buffer) -> bool:
    """Whether each rank fills the buffer with what happens to be ready."""
    return not buffer.is_coordinated and buffer.membership != "fixed"


def _filled(ready: Ready, cap: int, order: Sequence[int]) -> list[Flush]:
    """What does not fit flushes what is there, in the part in which it becomes ready."""
    buckets = pack(order, ready.sizes, cap)
    ends: list[int | None] = [ready.parts[following[0]] for following in buckets[1:]]
    return [_flush(ready, *pair) for pair in zip(buckets, [*ends, None], strict=True)]


def dealt(buffer: Buffer, ready: Ready, cap: int) -> list[Buckets]:
    """Deal the declared members to the buffers in turn and pack each; no rank is different."""
    count = buffer.buffers or 1
    lists = (ready.declared[first::count] for first in range(count))
    return [pack(members, ready.sizes, cap) for members in lists if members]


def split(buffer: Buffer, by_buffer: list[Buckets]) -> tuple[Buckets, Buckets]:
    """Return the buckets launched when ready and those drained at the end in buffer order."""
    if buffer.drain == "free":
        return tuple(bucket for buckets in by_buffer for bucket in buckets), ()
    first = tuple(bucket for buckets in by_buffer for bucket in buckets[:-1])
    return first, tuple(buckets[-1] for buckets in by_buffer)


def _in_order(ready: Ready, by_buffer: list[Buckets]) -> list[Flush]:
    """Launch a bucket when it and all before it, in declared order, are ready."""
    found, part = [], 0
    for bucket in launch_order(ready, by_buffer):
        part = max(part, _end(ready, bucket))
        found.append(_flush(ready, bucket, part))
    return found


def launch_order(ready: Ready, by_buffer: list[Buckets]) -> Buckets:
    """Return the buckets of all buffers by their last members in declared order."""
    place = {element: at for at, element in enumerate(ready.declared)}
    buckets = [bucket for one in by_buffer for bucket in one]
    return tuple(sorted(buckets, key=lambda bucket: place[bucket[-1]]))


def _end(ready: Ready, bucket: tuple[int, ...]) -> int:
    return max(ready.parts[element] for element in bucket)


def _flush(ready: Ready, bucket: tuple[int, ...], part: int | None) -> Flush:
    inside = set(bucket)
    return Flush(tuple(element for element in ready.declared if element in inside), part)
