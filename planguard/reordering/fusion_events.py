"""Is there one order of flushes, and of what stands beside them, on a rank?

A flush happens when the last element of a set is there (a fixed bucket) or the first one (the next
bucket of a filled buffer, which overflows). Everything else beside members is a set of one. Two
such events always come in one order iff the partial order says so; that is transitive, so
neighbors in the usual order stand for all (docs/explanation/fused-buffers.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from planguard.reordering.blocks import bits
from planguard.reordering.flushes import dealt, is_filled, launch_order, split
from planguard.reordering.rounds import queues_of
from planguard.semantics.fusion import fill_conflict, pack

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from planguard.reordering.fusion_policies import Agreed
    from planguard.reordering.fusion_rank import Extension, FusedRank, Held

_LOCAL = frozenset({"compute", "host_sync", "event_record", "event_wait"})


@dataclass(frozen=True)
class Conflict:
    """Two orders of a rank that differ in what it issues.

    Attributes:
        orders: The two orders.
        queue: The communicator on which they differ; None when they only may differ, in the order
            of several communicators, or when the rules do not apply.
        held: The buffer that shows it, or None.
    """

    orders: tuple[Extension, ...]
    queue: str | None
    held: Held | None = None


@dataclass(frozen=True)
class _Event:
    """Something that a rank issues: when the last (or the first) of some elements is there."""

    elements: int
    first: bool
    place: tuple[int, int]
    queues: frozenset[Hashable]
    held: Held | None = None


def conflict(rank: FusedRank, agreed: dict[str, Agreed], *, shared: bool) -> Conflict | None:
    """Return two orders in which a rank issues different programs, or None (exact).

    Args:
        rank: The rank.
        agreed: By coordinated buffer: what the ranks agreed on.
        shared: Whether the order of different communicators plays a part, too.
    """
    if _beyond_rules(rank):
        return Conflict((), None)
    events: list[_Event] = []
    for held in rank.held:
        found = _filled(rank, held) if is_filled(held.buffer) else _fixed(held, agreed)
        if isinstance(found, Conflict):
            return found
        events += found
    blocking = False
    for element, leaf in enumerate(rank.leaves):
        if element not in rank.owner and leaf.fields["op"] not in _LOCAL:
            queues = frozenset(queues_of(leaf, use_tags=False))
            events.append(_Event(1 << element, False, (element, -1), queues))
            blocking |= _may_block(leaf.fields)
    if shared or blocking:
        whole = _first_swap(rank, events, None)
        if whole is None:
            return None
    communicators = {queue for event in events for queue in event.queues}
    for queue in sorted(communicators, key=repr):
        swap = _first_swap(rank, events, queue)
        if swap is not None:
            return swap
    return Conflict((), None) if shared or blocking else None


def _beyond_rules(rank: FusedRank) -> bool:
    """Whether something beside members does more than take its place in a queue."""
    for element, leaf in enumerate(rank.leaves):
        op = leaf.fields["op"]
        waits = op == "compute" and leaf.fields.get("deps")
        if element in rank.owner:
            waits = not leaf.fields.get("async")
        elif op in {"wait", "init", "new_group", "destroy", "exit", "drop"}:
            waits = True
        if waits:
            return True
    return False


def _may_block(fields: dict[str, Any]) -> bool:
    if fields["op"] in {"isend", "irecv", "test"}:
        return False
    return not fields.get("async") or fields["op"] in {"barrier", "broadcast"}


def _fixed(held: Held, agreed: dict[str, Agreed]) -> list[_Event]:
    """Return the flushes of fixed buckets, each when its last element is there."""
    buffer, ready = held.buffer, held.ready
    if buffer.id in agreed:
        plan = agreed[buffer.id]
        if plan.by_name:
            return [_alone(held, member) for member in range(len(held.elements))]
        if plan.cluster is not None:
            return []  # nothing else communicates meanwhile
        at = {ready.name(member): member for member in range(len(ready.leaves))}
        buckets = []
        for names in plan.buckets:
            if not names <= at.keys():
                break  # never leaves, nor what is behind it
            buckets.append(tuple(at[name] for name in names))
        return _in_order(held, buckets)
    by_buffer = dealt(buffer, ready, held.cap)
    if buffer.launch == "ordered":
        return _in_order(held, launch_order(ready, by_buffer))
    first, last = split(buffer, by_buffer)
    events = [_flush(held, bucket, number) for number, bucket in enumerate(first)]
    every = tuple(range(len(held.elements)))
    return events + [_flush(held, every, len(first) + number) for number in range(len(last))]


def _in_order(held: Held, buckets: Iterable[Sequence[int]]) -> list[_Event]:
    events, inside = [], set()
    for number, bucket in enumerate(buckets):
        inside |= set(bucket)
        events.append(_flush(held, sorted(inside), number))
    return events


def _flush(held: Held, members: Sequence[int], number: int, *, first: bool = False) -> _Event:
    elements = [held.elements[member] for member in members]
    when = min(elements) if first else max(elements)
    queues: frozenset[Hashable] = frozenset({(held.buffer.group,)})
    return _Event(_mask(elements), first, (when, number), queues, held)


def _alone(held: Held, member: int) -> _Event:
    """Return a member that is matched by its name: it has a queue of its own."""
    element = held.elements[member]
    queues: frozenset[Hashable] = frozenset({("name", held.ready.name(member))})
    return _Event(1 << element, False, (element, 0), queues, held)


def _filled(rank: FusedRank, held: Held) -> list[_Event] | Conflict:
    """Return the flushes of a filled buffer, each when the next bucket begins.

    A wait for a member that is still inside flushes the rest; what comes later starts anew.
    """
    ready = held.ready
    events: list[_Event] = []
    begin = 0
    for end in (*_forced(rank, held), len(ready.leaves)):
        members = list(range(begin, end))
        if not members:
            continue
        sizes = [ready.sizes[member] for member in members]
        below = [ready.below[member] >> begin for member in members]
        pair = fill_conflict(below, sizes, held.cap)
        if pair is not None:
            lifted = tuple(
                rank.lifted([held.elements[begin + member] for member in order]) for order in pair
            )
            return Conflict(lifted, held.buffer.group, held)
        buckets = pack(range(len(members)), sizes, held.cap)
        for bucket in buckets[1:]:
            inside = [begin + member for member in bucket]
            events.append(_flush(held, inside, len(events), first=True))
        begin = end
    return events


def _forced(rank: FusedRank, held: Held) -> list[int]:
    """Return the members (by number) before which a wait has emptied the buffer.

    Waits stand between blocks, so whoever becomes ready before one has a smaller number. As long as
    there is one packing up to a wait, so is what it finds in the buffer; if not, the caller finds
    two packings of that stretch.
    """
    ready = held.ready
    names = {
        leaf.fields["work"]: at for at, leaf in enumerate(ready.leaves) if "work" in leaf.fields
    }
    ends: list[int] = []
    begin = 0
    for number, item in enumerate(rank.items):
        if item["op"] != "wait":
            continue
        work = item["work"] if isinstance(item["work"], list) else [item["work"]]
        waited = {names[name] for name in work if name in names}
        end = sum(1 for part in ready.parts if part < number)
        if not waited or end <= begin:
            continue
        last = pack(range(begin, end), ready.sizes, held.cap)[-1]
        if waited & set(last):
            ends.append(end)
            begin = end
    return ends


def _first_swap(
    rank: FusedRank, events: Iterable[_Event], queue: Hashable | None
) -> Conflict | None:
    """Return two neighbors of one queue (None: of all) that may come in either order."""
    chain = sorted(
        (event for event in events if queue is None or queue in event.queues),
        key=lambda event: event.place,
    )
    for one, other in pairwise(chain):
        early = _can_precede(rank, one, other)
        if early is not None:
            name = queue[0] if isinstance(queue, tuple) and len(queue) == 1 else None
            orders = (rank.usual, rank.down_first(early))
            return Conflict(orders, name, other.held or one.held)
    return None


def _can_precede(rank: FusedRank, one: _Event, other: _Event) -> int | None:
    """Return a closed set of elements that lets ``other`` happen before ``one``, or None."""
    if other.first:
        starts = [_closed(rank, 1 << element) for element in bits(other.elements)]
    else:
        starts = [_closed(rank, other.elements)]
    for early in starts:
        held_up = one.elements & ~early if not one.first else not one.elements & early
        if held_up:
            return early
    return None


def _closed(rank: FusedRank, elements: int) -> int:
    mask = elements
    for element in bits(elements):
        mask |= rank.below[element]
    return mask


def _mask(elements: Iterable[int]) -> int:
    mask = 0
    for element in elements:
        mask |= 1 << element
    return mask
