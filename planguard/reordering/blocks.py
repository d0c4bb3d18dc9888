"""Rank programs with open order, taken apart: fixed stretches and partially ordered blocks.

A block is a fence at both ends. Inside it a nested list is a chain kept in order, and ``after``
names actions of the same block that are issued first; nothing else orders two actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.plan.flatten import flatten

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@dataclass(frozen=True)
class RankOrder:
    """The program of one rank: leaves and blocks in order."""

    rank: int
    parts: tuple[Leaf | Block, ...]

    @property
    def blocks(self) -> Iterator[Block]:
        """The blocks with something to choose."""
        return (part for part in self.parts if isinstance(part, Block))


_MARKERS = range(48, 60)


def take_apart(plan: Plan, columns: Any) -> tuple[dict[str, Any], list[RankOrder]]:
    """Return the flat plan and the order structure of every rank.

    Args:
        plan: A plan whose only construct of open order is ``unordered``.
        columns: Its columns, for action indices.
    """
    flat = flatten(plan)
    orders = []
    for rank in range(plan.world_size):
        places = _leaf_actions(columns, rank)
        actions = flat["ranks"][str(rank)]["actions"]
        orders.append(RankOrder(rank, tuple(_part(item, places) for item in actions)))
    return flat, orders


def _leaf_actions(columns: Any, rank: int) -> Iterator[int]:
    """Action indices of the entries that are issued, in written order."""
    index = -1
    for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
        op = columns.op[at]
        index += not op & 64
        if not op & 64 and (op & 63) not in _MARKERS:
            yield index


def _part(item: dict[str, Any], places: Iterator[int]) -> Leaf | Block:
    if item["op"] != "unordered":
        return Leaf(item, next(places))
    leaves: list[Leaf] = []
    before: list[set[int]] = []
    for number, entry in enumerate(item["body"]):
        chain = entry if isinstance(entry, list) else [entry]
        for place, fields in enumerate(chain):
            before.append({len(leaves) - 1} if place else set())
            kept = {key: value for key, value in fields.items() if key != "after"}
            leaves.append(
                Leaf({**kept, "x-after": fields.get("after", [])}, next(places), (number, place))
            )
    ids = {leaf.fields["id"]: at for at, leaf in enumerate(leaves) if "id" in leaf.fields}
    for at, leaf in enumerate(leaves):
        before[at] |= {ids[name] for name in leaf.fields["x-after"]}
    return Block(tuple(leaves), tuple(frozenset(names) for names in before))


def extensions(block: Block) -> Iterator[tuple[int, ...]]:
    """Yield every linear extension of a block, the written order first where it is one."""

    def grow(order: list[int], left: set[int]) -> Iterator[tuple[int, ...]]:
        if not left:
            yield tuple(order)
        for leaf in sorted(left):
            if block.before[leaf].isdisjoint(left):
                order.append(leaf)
                left.remove(leaf)
                yield from grow(order, left)
                left.add(leaf)
                order.pop()

    return grow([], set(range(len(block.leaves))))


def count_extensions(block: Block, limit: int) -> int:
    """Return the number of linear extensions, or ``limit`` when there are at least as many."""
    total = 0
    for _ in extensions(block):
        total += 1
        if total >= limit:
            break
    return total


def reaches(block: Block) -> list[set[int]]:
    """Return, for every leaf, all leaves that must be issued before it."""
    closed: list[set[int]] = [set() for _ in block.leaves]
    done: set[int] = set()
    while len(done) < len(block.leaves):
        for leaf in range(len(block.leaves)):
            if leaf not in done and block.before[leaf] <= done:
                for first in block.before[leaf]:
                    closed[leaf] |= {first} | closed[first]
                done.add(leaf)
    return closed
