"""Which orders of flushes rank 0 may send: those that its own policy admits on its own program.

DDP launches its buckets in the order in which the gradients of rank 0 became ready in its first
iteration (torch 2.13.0, ``Reducer::sync_bucket_indices``): an order of the same program, and not
of the same run. So what is sent says nothing of what becomes ready first afterwards, on any rank.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from planguard.execution.findings.reason import UndecidedError, out_of_time, too_many
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
    order is of another one, and for what several buffers of a pool hold at the end.

    Raises:
        UndecidedError: There are too many orders, or no time for them.
    """
    names = held.ready.name
    found: dict[Sent, None] = {}
    where = f"orders in which rank {leader.order.rank} may fill fused buffer {held.buffer.id}"
    for number, order in enumerate(extensions(held.ready.below)):
        if number >= ORDERS and not deadline.is_bounded:
            raise UndecidedError(too_many(f"more than {ORDERS:,} {where}"))
        if deadline.expired():
            raise UndecidedError(out_of_time(f" after {number:,} {where}"))
        for buckets in _flushed(held, order):
            found[tuple(frozenset(map(names, bucket)) for bucket in buckets)] = None
    is_stated = held.buffer.membership == "fixed" or not (
        len(_lists(held)) > 1 or _waits_early(leader, held)
    )
    return list(found), is_stated or len(found) == 1


def _lists(held: Held) -> list[tuple[int, ...]]:
    """Return the members of every buffer of a pool."""
    count = held.buffer.buffers or 1
    lists = (held.ready.declared[first::count] for first in range(count))
    return [members for members in lists if members]


def _flushed(held: Held, order: Sequence[int]) -> Iterator[Buckets]:
    """Yield the flushes of a rank that orders its own buffer, for one order of readiness."""
    buffer, ready = held.buffer, held.ready
    if buffer.membership == "fixed":
        first, last = split(buffer, dealt(buffer, ready, held.cap))
        yield launched(order, first) + last
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
        number not in rank.parts and _names(item, works)
        for number, item in enumerate(rank.items[:last])
    )


def _names(fields: dict[str, object], works: set[object]) -> bool:
    """Whether an action is a wait for one of some handles."""
    work = fields.get("work", []) if fields["op"] == "wait" else []
    return not works.isdisjoint(work if isinstance(work, list) else [work])
