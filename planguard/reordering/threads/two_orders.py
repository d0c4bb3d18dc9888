"""Threads with too many orders to run one by one: an order that ends and one that gets stuck.

Where what meets is the same in every order of calls, two of them can say what all of them say: one
in which everything ends shows that whatever meets agrees, and one that gets stuck is a deadlock
that not every execution has. Which orders are tried is a guess; each of them is run as it is, with
the hosts of its threads, and counts only where that run is an execution.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.execution.running.expand import expand
from planguard.plan.fixed import AT
from planguard.plan.vocabulary import ORDER_BLOCKS
from planguard.reordering.strategy import explore
from planguard.semantics.model import Family

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.options import CheckOptions
    from planguard.plan.fixed import FixedPlan
    from planguard.reordering.threads.orders import Orders, Way
    from planguard.semantics.model import ExecutionModel


def is_large(orders: Sequence[Orders], limit: int) -> bool:
    """Tell whether the ranks have more combinations of orders than a limit."""
    total = 1
    for one in orders:
        total *= max(1, one.count(limit + 1))
        if total > limit:
            return True
    return False


def meets_alike(orders: Sequence[Orders], model: ExecutionModel) -> bool:
    """Tell whether every order of calls of a device model has the same matches.

    So it is where no two threads of a rank share a communicator or the same end of a channel. Where
    tags mean nothing, ends of channels are not told apart by them.
    """
    if model.family is not Family.DEVICE:
        return False
    positions = (replace(one, device=False, any_source=not model.use_tags) for one in orders)
    return math.prod(one.count(2) for one in positions) == 1


def telling(
    orders: Sequence[Orders], chained: FixedPlan, model: ExecutionModel, options: CheckOptions
) -> Iterator[tuple[Way, ...]]:
    """Yield orders that may tell.

    Thread after thread; on every second rank the last thread first; and one that gets stuck among
    chains.

    Args:
        orders: The orders of every rank.
        chained: The plan with every `threads` as an `unordered` block of chains.
        model: A model of devices.
        options: Options of the check.
    """
    firsts = [next(one.ways()) for one in orders]
    yield tuple(firsts)
    # Ranks that share a communicator often get stuck where they begin with different threads. The
    # parity of the bits tells ranks apart that are a row, or a column, of a mesh apart.
    turned = [one.way(list(_last_first(one.items))) if rank.bit_count() % 2 else firsts[rank]
              for rank, one in enumerate(orders)]  # fmt: skip
    if len(known := tuple(way for way in turned if way is not None)) == len(orders):
        yield known
    # Were all communicators there, no host would be held up by making one, and a thread were a
    # chain of an open order: what can get stuck there mostly can here.
    there = replace(model, lazy_init=False)
    found = explore(chained.plan, expand(chained.plan), there, options)
    if found.ordered is None or not found.outcome.severity:
        return
    origin = found.ordered.within(chained).origin
    ways = [one.way(actions) for one, actions in zip(orders, origin, strict=True)]
    chosen = tuple(way for way in ways if way is not None)
    if len(chosen) == len(ways):
        yield chosen


def _last_first(items: Sequence[Any]) -> Iterator[int]:
    """Yield actions in the order in which the last thread of a block makes all its calls first."""
    for item in items:
        if item["op"] == "threads":
            for thread in reversed(item["threads"]):
                yield from _last_first(thread)
        elif item["op"] in ORDER_BLOCKS:
            for one in item["body"]:
                yield from _last_first(one if isinstance(one, list) else [one])
        else:
            yield item[AT]
