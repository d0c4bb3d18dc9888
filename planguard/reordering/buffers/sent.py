"""Which orders of flushes rank 0 may send: those that its own policy admits on its own program.

DDP launches its buckets in the order in which the gradients of rank 0 became ready in its first
iteration (torch 2.13.0, ``Reducer::sync_bucket_indices``): an order of the same program, and not
of the same run. So what is sent says nothing of what becomes ready first afterwards, on any rank.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from planguard.execution.findings.reason import UndecidedError, out_of_time, too_many
from planguard.reordering.branches.assignments import leaves
from planguard.reordering.buffers.explore import ORDERS
from planguard.reordering.buffers.flushes import dealt, split
from planguard.reordering.buffers.rank import extensions
from planguard.semantics.fusion import launched, pack

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.options import Deadline
    from planguard.reordering.buffers.rank import FusedRank, Held
    from planguard.semantics.fusion import Buckets

Sent = tuple[frozenset[str], ...]
"""Names of the members of every bucket, in an order that is sent."""


def orders_sent(leader: FusedRank, held: Held, deadline: Deadline) -> tuple[list[Sent], bool]:
    """Return what the first rank of a group may send, and whether the plan states all of it.

    It does not where a wait of that rank may end a bucket, since the wait stands in one run and the
    order is of another one, for what several buffers of a pool hold at the end, and for what that
    rank holds at the end and never waits for: on its own it would keep it.

    Raises:
        UndecidedError: There are too many ways to fill the buffer, or no time for them.
    """
    names = held.ready.name
    found: dict[Sent, None] = {}
    waited = awaited(leader, held)
    is_whole = True
    waits = _waits_early(leader, held)
    if waits and len(_lists(held)) > 1 and held.buffer.membership != "fixed":
        raise UndecidedError(
            f"rank {leader.order.rank} waits for a member of fused buffer {held.buffer.id} before "
            "all of it is ready, and the buffer is a pool; fixed membership states what it sends"
        )
    where = f"ways in which rank {leader.order.rank} may fill fused buffer {held.buffer.id}"
    for number, buckets in enumerate(_layouts(held, waited, is_cut=waits)):
        if number >= ORDERS and not deadline.is_bounded:
            raise UndecidedError(too_many(f"more than {ORDERS:,} {where}"))
        if deadline.expired():
            raise UndecidedError(out_of_time(f" after {number:,} {where}"))
        is_whole &= sum(map(len, buckets)) == len(held.elements)
        found[tuple(frozenset(map(names, bucket)) for bucket in buckets)] = None
    is_stated = held.buffer.membership == "fixed" or not (
        len(_lists(held)) > 1 or waits or not is_whole
    )
    return list(found), is_stated or len(found) == 1


def awaited(rank: FusedRank, held: Held) -> frozenset[int]:
    """Return the members of a buffer that a rank waits for."""
    named: set[object] = set()
    for fields in (*(leaf.fields for leaf in rank.leaves), *leaves(rank.items)):
        named.update(_waited(fields))
    return frozenset(
        at
        for at, leaf in enumerate(held.ready.leaves)
        if leaf.fields.get("work") in named or not leaf.fields.get("async")
    )


def _lists(held: Held) -> list[tuple[int, ...]]:
    """Return the members of every buffer of a pool."""
    count = held.buffer.buffers or 1
    lists = (held.ready.declared[first::count] for first in range(count))
    return [members for members in lists if members]


def _layouts(held: Held, waited: frozenset[int], *, is_cut: bool) -> Iterator[Buckets]:
    """Yield the flushes of a rank that orders its own buffer, for all orders of readiness."""
    for order in extensions(held.ready.below):
        yield from _flushed(held, order, waited, is_cut=is_cut)


def _flushed(
    held: Held, order: Sequence[int], waited: frozenset[int], *, is_cut: bool
) -> Iterator[Buckets]:
    """Yield the flushes of a rank that orders its own buffer, for one order of readiness.

    What is left of a filled buffer at the end, and waited for by nobody there, is sent or not. One
    that is cut may also end a bucket behind any member, as a wait there would make it.
    """
    buffer, ready = held.buffer, held.ready
    if buffer.membership == "fixed":
        first, last = split(buffer, dealt(buffer, ready, held.cap))
        yield launched(order, first) + last
        return
    if is_cut:
        yield from _cut(held, order, waited)
        return
    place = {element: at for at, element in enumerate(order)}
    full: list[tuple[int, tuple[int, ...]]] = []
    left: list[tuple[int, ...]] = []
    for members in _lists(held):
        came = [element for element in order if element in set(members)]
        buckets = pack(came, ready.sizes, held.cap)
        ends = [place[following[0]] for following in buckets[1:]]
        full += zip(ends, buckets, strict=False)
        left.append(buckets[-1])
    head = tuple(bucket for _, bucket in sorted(full))
    for rest in itertools.permutations(left):
        yield head + rest
        kept = tuple(bucket for bucket in rest if not waited.isdisjoint(bucket))
        if kept != rest:
            yield head + kept


def _cut(held: Held, order: Sequence[int], waited: frozenset[int]) -> Iterator[Buckets]:
    """Yield the flushes of a filled buffer for all places where waits may end a bucket.

    Buckets are as full as they can be at first; then the last one that can be shorter is, by one
    element, and what follows is filled anew, as far as that goes.
    """
    buckets = list(pack(order, held.ready.sizes, held.cap))
    while buckets:
        yield tuple(buckets)
        if waited.isdisjoint(buckets[-1]):
            yield tuple(buckets[:-1])
        left: list[int] = []
        while buckets and len(buckets[-1]) == 1:
            left += buckets.pop()
        if buckets:
            *head, last = buckets.pop()
            buckets += [tuple(head), *pack((last, *reversed(left)), held.ready.sizes, held.cap)]


def _waits_early(rank: FusedRank, held: Held) -> bool:
    """Whether a rank may wait for a member before all of them are ready."""
    inside = sum(1 << element for element in held.elements)
    works = {leaf.fields["work"] for leaf in held.ready.leaves if "work" in leaf.fields}
    for element, leaf in enumerate(rank.leaves):
        is_wait = (
            not leaf.fields.get("async") if inside >> element & 1 else _names(leaf.fields, works)
        )
        if is_wait and inside & ~(rank.below[element] | 1 << element):
            return True
    last = max(held.ready.parts)
    return any(
        number not in rank.parts and any(_names(fields, works) for fields in leaves([item]))
        for number, item in enumerate(rank.items[:last])
    )


def _names(fields: dict[str, object], works: set[object]) -> bool:
    """Whether an action is a wait for one of some handles."""
    return not works.isdisjoint(_waited(fields))


def _waited(fields: dict[str, object]) -> list[object]:
    """Return the handles that an action waits for."""
    work = fields.get("work", []) if fields["op"] == "wait" else []
    return work if isinstance(work, list) else [work]
