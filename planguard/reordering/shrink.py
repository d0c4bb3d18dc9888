"""From a cycle of stands to orders of the ranks, with as few actions moved as there must be.

Only ranks on the cycle leave their written order, and there one action passes another: it and what
must come before it move forward, or the other and what must come after it move back, whichever
are fewer. Then whole ranks are put back while the plan stays stuck.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.reordering.blocks import Block, above_masks, below_masks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.reordering.blocks import RankOrder
    from planguard.reordering.cycles import Stuck
    from planguard.reordering.explorer import Choice
    from planguard.reordering.weak_graph import MayWait


TRIES = 6
"""Largest number of reordered ranks that are tried one by one; each costs one decision."""


def orders_of(
    graph: MayWait, stuck: Stuck, orders: Sequence[RankOrder], firsts: Sequence[Choice]
) -> tuple[Choice, ...]:
    """Return an order of every rank in which the stands of a cycle come before what they delay."""
    chosen = [list(choice) for choice in firsts]
    for stand, late in zip(stuck.stands, stuck.late, strict=True):
        at, behind = graph.place[stand], graph.place[late]
        if at.part != behind.part or at.leaf == behind.leaf:
            continue
        parts = orders[at.rank].parts
        number = sum(isinstance(part, Block) for part in parts[: at.part])
        block = parts[at.part]
        if isinstance(block, Block):
            chosen[at.rank][number] = pass_by(block, chosen[at.rank][number], at.leaf, behind.leaf)
    return tuple(tuple(choice) for choice in chosen)


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
    below = below_masks(block)[first] | 1 << first
    above = above_masks(block)[second] | 1 << second
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
    for rank in moved if len(moved) <= TRIES else ():
        tried = [*kept[:rank], firsts[rank], *kept[rank + 1 :]]
        if stuck(tried):
            kept = tried
    return tuple(kept)
