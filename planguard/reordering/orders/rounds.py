"""Out-of-round is polynomial: is each rank's order on a communicator a chain?

No execution mixes rounds iff on every communicator (and on every point-to-point channel) the
actions of each member are totally ordered; two unordered ones can always be swapped by one rank
alone (docs/explanation/every-order-proofs.md, T1).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import MESSAGES, takes_round
from planguard.reordering.blocks import Block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from planguard.reordering.blocks import Leaf, RankOrder

Queue = tuple[Any, ...]


def queues_of(leaf: Leaf, *, use_tags: bool) -> set[Queue]:
    """Return the communicators and channels on which a leaf takes a position."""
    found: set[Queue] = set()
    for part in leaf.fields["ops"] if leaf.fields["op"] == "batch" else [leaf.fields]:
        op = part["op"]
        group = part.get("group", leaf.fields.get("group", "world"))
        if op in MESSAGES:
            tag = part.get("tag", 0) if use_tags else 0
            found.add((group, op.lstrip("i"), part["peer"], tag))
        elif takes_round(op):
            found.add((group,))
    return found


def channel_of(queue: Queue, rank: int) -> Queue:
    """Return a name that both ends of a channel, and all members of a group, agree on."""
    if len(queue) == 1:
        return queue
    group, op, peer, tag = queue
    return (group, rank, peer, tag) if op == "send" else (group, peer, rank, tag)


def unlabeled_partner(orders: Iterable[RankOrder], *, use_tags: bool) -> str:
    """Return a call without a label that may meet one of several which may change places.

    Which of them it means is not known then, whatever labels those have: the test of an order
    compares labels where both sides have one. Empty if there is no such call.
    """
    moving: dict[Queue, dict[int, int]] = {}
    unlabeled: dict[Queue, list[tuple[int, range, str]]] = {}
    for order in orders:
        counts: Counter[Queue] = Counter()
        for part in order.parts:
            leaves = part.leaves if isinstance(part, Block) else (part,)
            taken = [
                (at, channel_of(queue, order.rank), label, leaf.fields["op"])
                for at, leaf in enumerate(leaves)
                for queue, label in _labels(leaf, use_tags=use_tags)
            ]
            inside = Counter(channel for _, channel, _, _ in taken)
            free = set(movable(part, use_tags=use_tags)) if isinstance(part, Block) else set()
            for at, channel, label, op in taken:
                places = range(counts[channel], counts[channel] + inside[channel])
                if at in free:
                    found = moving.setdefault(channel, {})
                    found |= {
                        k: order.rank if found.get(k, order.rank) == order.rank else -1
                        for k in places
                    }
                if not label:
                    unlabeled.setdefault(channel, []).append((order.rank, places, op))
            counts += inside
    for channel, calls in unlabeled.items():
        there = moving.get(channel, {})
        for rank, places, op in calls:
            if any(there.get(k, rank) != rank for k in places):
                return f"an unlabeled {op} of rank {rank}, which may meet one of several"
    return ""


def is_answered(orders: Iterable[RankOrder], *, use_tags: bool) -> Callable[[Queue, int], bool]:
    """Return what tells whether anybody else makes calls that a rank's calls of a queue may meet.

    A call that can meet nobody belongs to no other: it needs no identity, and mixes no round. Where
    the names of groups depend on who creates them when, or a message may go to several receives, a
    queue counts as answered.
    """
    ends: dict[Queue, set[tuple[int, str]]] = {}
    for order in orders:
        for part in order.parts:
            for leaf in part.leaves if isinstance(part, Block) else (part,):
                parts = leaf.fields["ops"] if leaf.fields["op"] == "batch" else [leaf.fields]
                if leaf.fields["op"] == "new_group" or any(
                    "any" in {one.get("peer"), one.get("tag")} for one in parts
                ):
                    return lambda _queue, _rank: True
                for queue in queues_of(leaf, use_tags=use_tags):
                    channel = channel_of(queue, order.rank)
                    ends.setdefault(channel, set()).add((order.rank, queue[1] if queue[1:] else ""))
    return lambda queue, rank: len(ends[channel_of(queue, rank)]) > 1


def _labels(leaf: Leaf, *, use_tags: bool) -> Iterator[tuple[Queue, bool]]:
    """Yield the queues on which a leaf takes a position, each with whether it has a label there."""
    if leaf.fields["op"] != "batch":
        for queue in queues_of(leaf, use_tags=use_tags):
            yield queue, "label" in leaf.fields
        return
    for part in leaf.fields["ops"]:
        own = {"group": leaf.fields["group"]} if "group" in leaf.fields else {}
        for queue in queues_of(replace(leaf, fields={**own, **part}), use_tags=use_tags):
            yield queue, "label" in part or "label" in leaf.fields


def _unordered_masks(block: Block, *, use_tags: bool) -> Iterator[tuple[int, int]]:
    """Yield leaves that may change places within a queue, each with the bit set of the others."""
    members: dict[Queue, int] = {}
    queues = [queues_of(leaf, use_tags=use_tags) for leaf in block.leaves]
    for at, mine in enumerate(queues):
        for queue in mine:
            members[queue] = members.get(queue, 0) | 1 << at
    if all(mask & (mask - 1) == 0 for mask in members.values()):
        return
    below, above = block.below, block.above
    for at, mine in enumerate(queues):
        free = ~(below[at] | above[at] | 1 << at)
        others = 0
        for queue in mine:
            others |= members[queue] & free
        if others:
            yield at, others


def movable(block: Block, *, use_tags: bool = False) -> list[int]:
    """Return the leaves that may change places with another leaf of one of their queues."""
    return [at for at, _ in _unordered_masks(block, use_tags=use_tags)]


def swaps(block: Block, *, use_tags: bool) -> Iterator[tuple[int, int]]:
    """Yield pairs of leaves of one queue that a rank may issue in either order."""
    for at, others in _unordered_masks(block, use_tags=use_tags):
        later = others >> (at + 1)
        if later:
            yield at, at + 1 + (later & -later).bit_length() - 1


def tie_twins(block: Block, *, use_tags: bool) -> Block:
    """Order actions that nothing tells apart: the same call, label and neighbors in the order.

    Exchanging two of them turns every order into one that reads the same, so the orders that keep
    them as written stand for all. Calls without a label are not tied: their data may differ.
    """
    before = [set(names) for names in block.before]
    first: dict[Any, int] = {}
    below, above = block.below, block.above
    tied = False
    for at, _ in _unordered_masks(block, use_tags=use_tags):
        fields = block.leaves[at].fields
        if "label" not in fields or {"id", "work"} & fields.keys() or fields["op"] == "batch":
            continue
        shown = tuple(
            sorted((k, repr(v)) for k, v in fields.items() if k not in {"src", "x-after"})
        )
        key = shown, below[at], above[at]
        if key in first:
            before[at].add(first[key])
            tied = True
        first[key] = at
    return replace(block, before=tuple(map(frozenset, before))) if tied else block
