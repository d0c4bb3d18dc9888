"""Is there one order of flushes, and of what stands beside them, on a rank?

A flush happens when the last element of a set is there (a fixed bucket) or the first one (the next
bucket of a filled buffer, which overflows). Everything else beside members is a set of one. Two
such events always come in one order iff the partial order says so; that is transitive, so
neighbors in the usual order stand for all (docs/explanation/fused-buffers.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import BLOCKING, LASTING, ORDER_BLOCKS
from planguard.reordering.blocks import bits
from planguard.reordering.branches.assignments import leaves
from planguard.reordering.buffers.flushes import dealt, is_filled, launch_order, split
from planguard.reordering.orders.rounds import queues_of
from planguard.semantics.fusion import fill_conflict, pack

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from planguard.reordering.blocks import Leaf
    from planguard.reordering.buffers.policies import Agreed
    from planguard.reordering.buffers.rank import Extension, FusedRank, Held

_BEYOND = LASTING - {"init"}
"""Operations beside members whose place changes what other calls mean."""


_WAITING = {"wait", *ORDER_BLOCKS}
"""What may wait between blocks of members, or hold something that does."""


@dataclass(frozen=True)
class Conflict:
    """Two orders of a rank that differ in what it issues.

    Attributes:
        orders: The two orders.
        queue: The communicator on which they differ; None when they only may differ, in the order
            of several communicators, or when the rules do not apply.
        held: The buffer that shows it, or None.
        events: What leaves on the rank and when, where the rules apply and no communicator has two
            sequences; ``orders`` are then such in which the rank waits for what only it could
            launch, and launches it later.
    """

    orders: tuple[Extension, ...]
    queue: str | None
    held: Held | None = None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Event:
    """Something that a rank issues: when the last (or the first) of some elements is there.

    Attributes:
        elements: Bit mask of the elements.
        first: It comes with the first of them; else with the last.
        place: Where it comes in the order in which the elements are numbered.
        queues: The communicators and channels on which it takes a position.
        held: The buffer of a flush.
        members: The members that leave with a flush, by their places in the buffer.
    """

    elements: int
    first: bool
    place: tuple[int, int]
    queues: frozenset[Hashable]
    held: Held | None = None
    members: frozenset[int] = frozenset()


def conflict(
    rank: FusedRank,
    agreed: dict[str, Agreed],
    *,
    shared: bool,
    alone: frozenset[str] = frozenset(),
) -> Conflict | None:
    """Return two orders in which a rank issues different programs, or None (exact).

    Args:
        rank: The rank.
        agreed: By coordinated buffer: what the ranks agreed on.
        shared: Whether the order of different communicators plays a part, too.
        alone: Groups of one rank: what is issued there completes by itself, in any order.
    """
    if rank.late or any(leaf.fields["op"] in _BEYOND for leaf in _others(rank)):
        return Conflict((), None)
    events: list[Event] = []
    for held in rank.held:
        found = _filled(rank, held) if is_filled(held.buffer) else _fixed(rank, held, agreed)
        if isinstance(found, Conflict):
            if held.buffer.group in alone:
                continue
            return found
        events += found
    waits = _waits(rank, events)
    if waits is None:
        return Conflict((), None)
    blocking = bool(rank.owner) and any(True for _ in _waiting(rank))
    for element, leaf in enumerate(rank.leaves):
        if element not in rank.owner and not _is_silent(leaf.fields):
            queues = frozenset(queues_of(leaf, use_tags=False))
            events.append(Event(1 << element, False, (element, -1), queues))
            blocking |= _may_block(leaf.fields)
    communicators = {queue for event in events for queue in event.queues}
    for queue in sorted(communicators - {(group,) for group in alone}, key=repr):
        swap = _first_swap(rank, events, queue)
        if swap is not None:
            return swap
    if waits:
        return Conflict(waits, None, events=tuple(events))
    if (shared or blocking) and _first_swap(rank, events, None) is not None:
        return Conflict((), None, events=tuple(events))
    return None


def _others(rank: FusedRank) -> Iterator[Leaf]:
    """Yield what stands beside members."""
    return (leaf for element, leaf in enumerate(rank.leaves) if element not in rank.owner)


def _is_silent(fields: dict[str, Any]) -> bool:
    """Whether nobody else notices an action: a computation that waits for nothing."""
    return fields["op"] == "compute" and not fields.get("deps")


def _waiting(rank: FusedRank) -> Iterator[tuple[int, int, int]]:
    """Yield the elements that wait for a member, with its buffer and its place there."""
    works = {
        leaf.fields["work"]: (number, at)
        for number, held in enumerate(rank.held)
        for at, leaf in enumerate(held.ready.leaves)
        if "work" in leaf.fields
    }
    for element, leaf in enumerate(rank.leaves):
        if element in rank.owner:
            if not leaf.fields.get("async"):
                yield (element, *rank.owner[element])
        elif leaf.fields["op"] == "wait":
            work = leaf.fields["work"]
            for name in work if isinstance(work, list) else [work]:
                if name in works:
                    yield (element, *works[name])


def _waits(rank: FusedRank, events: Sequence[Event]) -> tuple[Extension, ...] | None:
    """Return orders in which a rank waits for a flush that it launches later, or never.

    None where the rules do not apply: a wait in a block that makes a filled buffer flush, for what
    is never launched, or for a flush for which another one waits that may come first.
    """
    flush_of = {(id(event.held), member): event for event in events for member in event.members}
    found: list[Extension] = []
    waited: dict[int, list[int]] = {}
    for element, number, at in _waiting(rank):
        held = rank.held[number]
        event = flush_of.get((id(held), at))
        if event is None or (is_filled(held.buffer) and not _is_at_once(held)):
            return None
        wait = Event(1 << element, False, (element, 1), frozenset())
        early = can_precede(rank, event, wait)
        if early is not None:
            found.append(rank.down_first(early))
        waited.setdefault(id(event), []).append(element)
    for elements in waited.values():
        if any(not rank.below[late] >> early & 1 for early, late in pairwise(sorted(elements))
               if early != late):  # fmt: skip
            return None
    return tuple(dict.fromkeys(found))


def _may_block(fields: dict[str, Any]) -> bool:
    if fields["op"] in BLOCKING or fields["op"] in {"test", "event_record"}:
        return False
    return not fields.get("async") or fields["op"] in {"barrier", "broadcast"}


def _fixed(rank: FusedRank, held: Held, agreed: dict[str, Agreed]) -> list[Event]:
    """Return the flushes of fixed buckets, each when its last element is there."""
    buffer, ready = held.buffer, held.ready
    every = tuple(range(len(held.elements)))
    if buffer.id in agreed:
        plan = agreed[buffer.id]
        if plan.by_name:
            return [_alone(held, member) for member in every]
        at = {ready.name(member): member for member in range(len(ready.leaves))}
        buckets = []
        for names in plan.buckets:
            if not names <= at.keys():
                break  # never leaves, nor what is behind it
            buckets.append(tuple(at[name] for name in names))
        if plan.cluster is not None:
            return _at_once(rank, held, buckets, agreed)
        return _in_order(held, buckets)
    by_buffer = dealt(buffer, ready, held.cap)
    if buffer.launch == "ordered":
        return _in_order(held, launch_order(ready, by_buffer))
    first, last = split(buffer, by_buffer)
    events = [_flush(held, bucket, number, bucket) for number, bucket in enumerate(first)]
    return events + [
        _flush(held, every, len(first) + number, bucket) for number, bucket in enumerate(last)
    ]


def _at_once(
    rank: FusedRank, held: Held, buckets: Sequence[Sequence[int]], agreed: dict[str, Agreed]
) -> list[Event]:
    """Return the flushes of buffers that leave together, when all members of all are there."""
    cluster = agreed[held.buffer.id].cluster
    mine = [
        number
        for number, other in enumerate(rank.held)
        if other.buffer.id in agreed and agreed[other.buffer.id].cluster == cluster
    ]
    elements = [element for number in mine for element in rank.held[number].elements]
    before = next(number for number in mine if rank.held[number] is held) * len(rank.leaves)
    return [
        replace(_flush(held, (), 0, bucket), elements=_mask(elements),
                place=(max(elements), before + number))
        for number, bucket in enumerate(buckets)
    ]  # fmt: skip


def _in_order(held: Held, buckets: Iterable[Sequence[int]]) -> list[Event]:
    events, inside = [], set()
    for number, bucket in enumerate(buckets):
        inside |= set(bucket)
        events.append(_flush(held, sorted(inside), number, bucket))
    return events


def _flush(
    held: Held, after: Sequence[int], number: int, members: Iterable[int], *, first: bool = False
) -> Event:
    """Return the flush of members when the last (or the first) of some others is there."""
    elements = [held.elements[member] for member in after]
    when = (min(elements) if first else max(elements)) if elements else -1
    queues: frozenset[Hashable] = frozenset({(held.buffer.group,)})
    return Event(_mask(elements), first, (when, number), queues, held, frozenset(members))


def _alone(held: Held, member: int) -> Event:
    """Return a member that is matched by its name: it has a queue of its own."""
    element = held.elements[member]
    queues: frozenset[Hashable] = frozenset({("name", held.ready.name(member))})
    return Event(1 << element, False, (element, 0), queues, held, frozenset({member}))


def _filled(rank: FusedRank, held: Held) -> list[Event] | Conflict:
    """Return the flushes of a filled buffer, each when the next bucket begins.

    A wait for a member that is still inside flushes the rest; what comes later starts anew. Where
    every member is waited for at once, each leaves alone.
    """
    ready = held.ready
    if _is_at_once(held):
        return [_flush(held, (at,), at, (at,)) for at in range(len(ready.leaves))]
    events: list[Event] = []
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
        for full, bucket in pairwise(buckets):
            inside = [begin + member for member in bucket]
            leaves = [begin + member for member in full]
            events.append(_flush(held, inside, len(events), leaves, first=True))
        begin = end
    return events


def _is_at_once(held: Held) -> bool:
    """Whether every member is waited for where it is submitted."""
    return not any(leaf.fields.get("async") for leaf in held.ready.leaves)


def _forced(rank: FusedRank, held: Held) -> list[int]:
    """Return the members (by number) before which a wait has emptied the buffer.

    Waits stand between blocks of members, so whoever becomes ready before one has a smaller number;
    among them are those in threads. As long as there is one packing up to a wait, so is what it
    finds in the buffer; if not, the caller finds two packings of that stretch.
    """
    ready = held.ready
    names = {
        leaf.fields["work"]: at for at, leaf in enumerate(ready.leaves) if "work" in leaf.fields
    }
    ends: list[int] = []
    begin, inside = 0, set(rank.parts)
    for number, item in enumerate(rank.items):
        if number in inside or item["op"] not in _WAITING:
            continue
        works = [fields["work"] for fields in leaves([item]) if fields["op"] == "wait"]
        work = [name for one in works for name in ([one] if isinstance(one, str) else one)]
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
    rank: FusedRank, events: Iterable[Event], queue: Hashable | None
) -> Conflict | None:
    """Return two neighbors of one queue (None: of all) that may come in either order."""
    chain = sorted(
        (event for event in events if queue is None or queue in event.queues),
        key=lambda event: event.place,
    )
    for one, other in pairwise(chain):
        early = can_precede(rank, one, other)
        if early is not None:
            name = queue[0] if isinstance(queue, tuple) and len(queue) == 1 else None
            orders = (rank.usual, rank.down_first(early))
            return Conflict(orders, name, other.held or one.held)
    return None


def starts(rank: FusedRank, event: Event) -> list[int]:
    """Return the least closed sets of elements with which an event comes."""
    if event.first:
        return [closed(rank, 1 << element) for element in bits(event.elements)]
    return [closed(rank, event.elements)]


def can_precede(rank: FusedRank, one: Event, other: Event) -> int | None:
    """Return a closed set of elements that lets ``other`` happen before ``one``, or None."""
    for early in starts(rank, other):
        held_up = one.elements & ~early if not one.first else not one.elements & early
        if held_up:
            return early
    return None


def closed(rank: FusedRank, elements: int) -> int:
    """Return elements with all that always come before them."""
    mask = elements
    for element in bits(elements):
        mask |= rank.below[element]
    return mask


def _mask(elements: Iterable[int]) -> int:
    mask = 0
    for element in elements:
        mask |= 1 << element
    return mask
