"""From a cycle of stands to orders of the ranks, with as few actions moved as there must be.

Only ranks on the cycle leave their written order, and there one action passes another: it and what
must come before it move forward, or the other and what must come after it move back, whichever
are fewer. Then whole ranks are put back while the plan stays stuck.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.reordering.blocks import Block

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.reordering.blocks import RankOrder
    from planguard.reordering.explorer import Choice
    from planguard.reordering.orders.cycles import Stuck
    from planguard.reordering.orders.weak_graph import MayWait


TRIES = 6
"""Largest number of reordered ranks that are tried one by one; each costs one decision."""
ACTIONS = 10_000
"""Most actions that these decisions read together: beyond, a shorter witness costs too much."""


def orders_of(
    graph: MayWait, stuck: Stuck, orders: Sequence[RankOrder], firsts: Sequence[Choice]
) -> tuple[Choice, ...]:
    """Return an order of every rank in which the stands of a cycle come before what they delay."""
    chosen = [list(choice) for choice in firsts]
    for (rank, part), pairs in _asked(graph, stuck).items():
        parts = orders[rank].parts
        number = sum(isinstance(one, Block) for one in parts[:part])
        block = parts[part]
        if not isinstance(block, Block):
            continue
        if len(pairs) == 1:
            chosen[rank][number] = pass_by(block, chosen[rank][number], *pairs[0])
        else:
            chosen[rank][number] = _tied(block, pairs).extension
    return tuple(tuple(choice) for choice in chosen)


def agree(graph: MayWait, stuck: Stuck, orders: Sequence[RankOrder]) -> bool:
    """Tell whether each rank has an order with all that a cycle asks of its lanes."""
    for (rank, part), pairs in _asked(graph, stuck).items():
        block = orders[rank].parts[part]
        if isinstance(block, Block) and len(pairs) > 1:
            tied = _tied(block, pairs)
            if len(tied.extension) < len(block.leaves):
                return False
    return True


def _asked(graph: MayWait, stuck: Stuck) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return, by rank and part, which leaf has to come before which for a cycle.

    A stand comes before what it delays; of the leaves that may make a communicator, the one at
    which a host stands comes before the others.
    """
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for stand, late in zip(stuck.stands, stuck.late, strict=True):
        at, behind = graph.place[stand], graph.place[late]
        mine = found.setdefault((at.rank, at.part), [])
        mine += [(at.leaf, other) for other in graph.makers.get(stand, ()) if other != at.leaf]
        if at.part == behind.part:
            later = graph.makers.get(late, (behind.leaf,))
            mine += [(at.leaf, other) for other in later if other != at.leaf]
    return {key: pairs for key, pairs in found.items() if pairs}


def _tied(block: Block, pairs: Sequence[tuple[int, int]]) -> Block:
    before = [set(names) for names in block.before]
    for first, second in pairs:
        before[second].add(first)
    return replace(block, before=tuple(map(frozenset, before)))


def pass_by(block: Block, order: tuple[int, ...], first: int, second: int) -> tuple[int, ...]:
    """Return the order changed as little as possible so that ``first`` comes before ``second``.

    Args:
        block: The block.
        order: A linear extension of it.
        first: A leaf that is not ordered after ``second``.
        second: Another leaf.
    """
    where = {leaf: at for at, leaf in enumerate(order)}
    low, high = where[second], where[first]
    if high < low:
        return order
    below = block.below[first] | 1 << first
    above = block.above[second] | 1 << second
    window = order[low : high + 1]
    forward = [leaf for leaf in window if below >> leaf & 1]
    back = [leaf for leaf in window if above >> leaf & 1]
    if len(forward) <= len(back):
        rest = [leaf for leaf in window if not below >> leaf & 1]
        return (*order[:low], *forward, *rest, *order[high + 1 :])
    rest = [leaf for leaf in window if not above >> leaf & 1]
    return (*order[:low], *rest, *back, *order[high + 1 :])


def put_back(
    chosen: tuple[Choice, ...], firsts: Sequence[Choice], stuck: Callable[[Sequence[Choice]], bool]
) -> tuple[Choice, ...]:
    """Return the orders with every rank in written order again that need not leave it."""
    kept = list(chosen)
    moved = [rank for rank, first in enumerate(firsts) if kept[rank] != first]
    size = sum(len(block) for choice in firsts for block in choice)
    cheap = len(moved) <= TRIES and len(moved) * size <= ACTIONS
    for rank in moved if cheap else ():
        tried = [*kept[:rank], firsts[rank], *kept[rank + 1 :]]
        if stuck(tried):
            kept = tried
    return tuple(kept)
