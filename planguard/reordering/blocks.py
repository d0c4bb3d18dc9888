"""Rank programs with open order, taken apart: fixed stretches and partially ordered blocks.

A block is a fence at both ends. Inside it a nested list is a chain kept in order, ``after`` names
actions of the same block that are issued first, and a wait or a computation comes after what it
names; nothing else orders two actions.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard.plan.actions import KIND_MASK, MEMBER, Kind
from planguard.plan.flatten import flatten
from planguard.plan.vocabulary import HANDLES, ORDER_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.plan.plan import Plan


@dataclass(frozen=True)
class Leaf:
    """One action that is issued.

    Attributes:
        fields: The flat action.
        action: Its action index in the plan.
        path: Where it stands in its block: item, then place in a chain.
    """

    fields: dict[str, Any]
    action: int
    path: tuple[int, ...] = ()


@dataclass(frozen=True)
class Block:
    """Leaves in written order and, for each, the leaves (by position) that are issued first."""

    leaves: tuple[Leaf, ...]
    before: tuple[frozenset[int], ...]

    # Kept with the block: a plan of the size of a job asks for each of them a dozen times.

    @cached_property
    def extension(self) -> tuple[int, ...]:
        """The linear extension that keeps the written order wherever it can."""
        left = [len(names) for names in self.before]
        followers: list[list[int]] = [[] for _ in self.leaves]
        for leaf, names in enumerate(self.before):
            for first in names:
                followers[first].append(leaf)
        ready = [leaf for leaf, count in enumerate(left) if not count]
        order = []
        while ready:
            order.append(heapq.heappop(ready))
            for leaf in followers[order[-1]]:
                left[leaf] -= 1
                if not left[leaf]:
                    heapq.heappush(ready, leaf)
        return tuple(order)

    @cached_property
    def below(self) -> tuple[int, ...]:
        """For every leaf, the bit set of all leaves that must be issued before it."""
        masks = [0] * len(self.leaves)
        for leaf in self.extension:
            for first in self.before[leaf]:
                masks[leaf] |= masks[first] | 1 << first
        return tuple(masks)

    @cached_property
    def above(self) -> tuple[int, ...]:
        """For every leaf, the bit set of all leaves that must be issued after it."""
        masks = [0] * len(self.leaves)
        for leaf in reversed(self.extension):
            for first in self.before[leaf]:
                masks[first] |= masks[leaf] | 1 << leaf
        return tuple(masks)


@dataclass(frozen=True)
class Plain:
    """Actions in a row that are issued as they are, whatever is open.

    Attributes:
        actions: Their action indices.
        nodes: The actions as read.
    """

    actions: range
    nodes: list[Any]


@dataclass(frozen=True)
class RankOrder:
    """The program of one rank: leaves and blocks in order."""

    rank: int
    parts: tuple[Leaf | Block, ...]

    @property
    def blocks(self) -> Iterator[Block]:
        """The blocks with something to choose."""
        return (part for part in self.parts if isinstance(part, Block))


_WIDE = 256
"""Bits of a set that is read as text."""
MARKERS = range(Kind.REPEAT, Kind.BIND + 1)
"""Operations of columns that begin and end blocks."""


def take_apart(plan: Plan, columns: Any) -> tuple[dict[str, Any], list[RankOrder]]:
    """Return the flat plan and the order structure of every rank.

    Args:
        plan: A plan whose only construct of open order is ``unordered``, or also ``threads`` where
            the caller leaves those as they are written: their leaves are chains side by side.
        columns: Its columns, for action indices.
    """
    flat = flatten(plan)
    ranks = range(plan.world_size)
    return flat, [rank_order(rank, flat["ranks"][str(rank)]["actions"], columns) for rank in ranks]


def rank_order(rank: int, actions: Sequence[Any], columns: Any) -> RankOrder:
    """Return the order structure of the flat actions of one rank."""
    places = _leaf_actions(columns, rank)
    return RankOrder(rank, tuple(_part(item, places) for item in actions))


def _leaf_actions(columns: Any, rank: int) -> Iterator[int]:
    """Action indices of the entries that are issued, in written order."""
    index = -1
    for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
        op = columns.op[at]
        index += not op & 64
        if not op & MEMBER and (op & KIND_MASK) not in MARKERS:
            yield index


def _part(item: dict[str, Any], places: Iterator[int]) -> Leaf | Block:
    if item["op"] not in ORDER_BLOCKS:
        return Leaf(item, next(places))
    growing = _Growing(places)
    growing.body(item[ORDER_BLOCKS[item["op"]]], set(), ())
    growing.order_by_name()
    return Block(tuple(growing.leaves), tuple(frozenset(names) for names in growing.before))


def taken(item: dict[str, Any], places: Iterator[int] | None = None) -> Leaf | Block:
    """Return one flat action, or a block of open order, taken apart.

    Args:
        item: The action or the block.
        places: The action indices of what is issued; without, there are none.
    """
    return _part(item, itertools.repeat(-1) if places is None else places)


class _Growing:
    """A block under construction; a block inside a chain is a fence at both ends too."""

    def __init__(self, places: Iterator[int]) -> None:
        self.places = places
        self.leaves: list[Leaf] = []
        self.before: list[set[int]] = []
        self.names: dict[str, set[int]] = {}

    def body(self, items: list[Any], first: set[int], path: tuple[int, ...]) -> set[int]:
        """Append the items of a body, each after ``first``; return the leaves that end them."""
        ends: set[int] = set()
        for number, entry in enumerate(items):
            last = first
            for place, fields in enumerate(entry if isinstance(entry, list) else [entry]):
                last = self._item(fields, last, (*path, number, place))
            ends |= last
        return ends

    def _item(self, fields: dict[str, Any], first: set[int], path: tuple[int, ...]) -> set[int]:
        """Append one item; return the leaves that end it."""
        begin = len(self.leaves)
        if fields["op"] in ORDER_BLOCKS:
            inside = self.body(fields[ORDER_BLOCKS[fields["op"]]], first, path)
            after = fields.get("after", [])
            for leaf in self.leaves[begin:] if after else ():
                leaf.fields["x-after"] = [*leaf.fields.get("x-after", []), *after]
            inside |= set(range(begin, len(self.leaves)))
            if len(self.leaves) == begin:  # nothing in it: it passes on what it comes after
                inside = inside.union(first, *(self.names[name] for name in after))
            if "id" in fields:
                self.names[fields["id"]] = inside
            return inside
        kept = dict(fields)
        if "after" in kept:
            kept["x-after"] = kept.pop("after")
        self.before.append(set(first))
        self.leaves.append(Leaf(kept, next(self.places), path))
        if "id" in kept:
            self.names[kept["id"]] = {begin}
        return {begin}

    def order_by_name(self) -> None:
        """Add what ``after`` says, and what a handle or a result orders by being used."""
        ids = self.names
        started: dict[str, int] = {}
        ended: dict[str, set[int]] = {}
        for at, leaf in enumerate(self.leaves):
            fields = leaf.fields
            # A name from outside stands in front of the block, which is a fence. Were it beside the
            # block, leaving it out admits more orders, never fewer.
            after = fields.get("x-after", ())
            self.before[at].update(*(ids[name] for name in after if name in ids))
            deps = fields.get("deps", []) if fields["op"] == "compute" else []
            self.before[at].update(*(ids[name] for name in deps if name in ids))
            work = fields.get("work", [])
            names = [work] if isinstance(work, str) else work
            if fields["op"] in HANDLES:
                self.before[at] |= {started[name] for name in names if name in started}
                for name in names:
                    ended.setdefault(name, set()).add(at)
                continue
            for name in names:
                self.before[at] |= ended.pop(name, set())
                started[name] = at


def extensions(block: Block) -> Iterator[tuple[int, ...]]:
    """Yield every linear extension of a block, the written order first where it is one."""
    # A stack of its own: a block is as long as its program, which recursion is not.
    left = set(range(len(block.leaves)))
    order: list[int] = []

    def ready() -> Iterator[int]:
        return iter([leaf for leaf in sorted(left) if block.before[leaf].isdisjoint(left)])

    if not left:
        yield ()
        return
    turns = [ready()]
    while turns:
        leaf = next(turns[-1], None)
        if leaf is None:
            turns.pop()
            left.update(order[-1:])
            del order[-1:]
            continue
        order.append(leaf)
        left.remove(leaf)
        if left:
            turns.append(ready())
        else:
            yield tuple(order)
            left.add(order.pop())


def count_extensions(block: Block, limit: int) -> int:
    """Return the number of linear extensions, or ``limit`` when there are at least as many."""
    total = 0
    for _ in extensions(block):
        total += 1
        if total >= limit:
            break
    return total


def bits(mask: int) -> Iterator[int]:
    """Yield the members of a bit set, lowest first."""
    if mask >> _WIDE:  # as text: a turn of the loop below costs the width of the whole set
        text = bin(mask)[:1:-1]
        at = text.find("1")
        while at >= 0:
            yield at
            at = text.find("1", at + 1)
        return
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def reaches(block: Block) -> list[set[int]]:
    """Return, for every leaf, all leaves that must be issued before it."""
    return [set(bits(mask)) for mask in block.below]
