"""Outcomes that one or two well-chosen orders settle.

Over all orders a plan is a DEADLOCK only if every order is one. So a single order that mixes rounds
and is no DEADLOCK settles MISMATCH; and where no order mixes rounds, one that is stuck and one that
is not settle POTENTIAL_DEADLOCK.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from planguard.execution.findings.mismatch import candidates
from planguard.execution.findings.reason import construct, out_of_time
from planguard.reordering.blocks import Block
from planguard.reordering.explorer import Explored
from planguard.reordering.orders.shrink import pass_by
from planguard.reordering.orders.weak_complete import Completing
from planguard.reordering.orders.weak_search import fresh_in_blocks
from planguard.reordering.orders.weak_words import InapplicableError, words_of
from planguard.semantics.model import Family, lenient
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.execution.decide import Decider, Decision
    from planguard.plan.fixed import FixedPlan
    from planguard.reordering.explorer import Choice, Task

    Found = tuple[Decision, Decider, FixedPlan]

PAIRS = 12
"""Pairs of actions that are exchanged in search of an order that mixes rounds."""
SAMPLES = 24
"""Random orders that are tried where exchanging one pair settles nothing."""


def out_of_round(
    task: Task,
    firsts: Sequence[Choice],
    swapped: list[tuple[int, int, int, int]],
    written: Found,
) -> Explored:
    """Look for an order that mixes rounds and is not stuck for a reason of its own.

    Args:
        task: The plan.
        firsts: The written order of every rank.
        swapped: Rank, block and two leaves of one queue that the rank may issue in either order.
        written: The decision on the written order.
    """
    tries = [*_exchanged(task, firsts, swapped[:PAIRS]), *_random_orders(task, SAMPLES)]
    for chosen in (None, *tries):
        if task.expired():
            break
        found = written if chosen is None else task.decide(chosen)
        if found[0].outcome is Outcome.MISMATCH:
            return Explored(
                found[0].outcome,
                *found,
                schedules=task.schedules,
                route=("rounds",),
                reordered=True,
            )
    reason = "actions of one communicator may change places, and no tried order settles the outcome"
    why = out_of_time(f": {reason}") if task.expired() else construct(reason)
    return Explored(Outcome.UNKNOWN, schedules=task.schedules, reason=why)


def _exchanged(
    task: Task, firsts: Sequence[Choice], swapped: list[tuple[int, int, int, int]]
) -> Iterator[tuple[Choice, ...]]:
    for rank, number, first, second in swapped:
        block = [part for part in task.orders[rank].parts if isinstance(part, Block)][number]
        chosen = [list(choice) for choice in firsts]
        order = chosen[rank][number]
        places = {leaf: at for at, leaf in enumerate(order)}
        front, back = sorted((first, second), key=places.__getitem__)
        chosen[rank][number] = pass_by(block, order, back, front)
        yield tuple(tuple(choice) for choice in chosen)


def _random_orders(task: Task, count: int) -> Iterator[tuple[Choice, ...]]:
    """Yield random orders, the same ones for the same plan."""
    rng = random.Random(0)  # noqa: S311  no secret
    for _ in range(count):
        yield tuple(
            tuple(_random_extension(block, rng) for block in order.blocks) for order in task.orders
        )


def _random_extension(block: Block, rng: random.Random) -> tuple[int, ...]:
    left = [set(names) for names in block.before]
    ready = [leaf for leaf, names in enumerate(left) if not names]
    followers: dict[int, list[int]] = {}
    for leaf, names in enumerate(block.before):
        for first in names:
            followers.setdefault(first, []).append(leaf)
    order = []
    while ready:
        place = rng.randrange(len(ready))
        ready[place], ready[-1] = ready[-1], ready[place]
        order.append(ready.pop())
        for leaf in followers.get(order[-1], ()):
            left[leaf].discard(order[-1])
            if not left[leaf]:
                ready.append(leaf)
    return tuple(order)


def any_outcome(task: Task, firsts: Sequence[Choice], written: Found) -> Explored:
    """Decide a plan whose written order is a DEADLOCK and whose rounds are in order everywhere.

    Where some order is not stuck at the lenient end, the outcome is that of an order that is not,
    made milder by nothing: SAFE and POTENTIAL_DEADLOCK give POTENTIAL_DEADLOCK. Otherwise every
    order is a DEADLOCK.
    """
    if candidates(written[0].execution) or written[0].implied:
        reason = "a mismatch and a deadlock in one order: which of them other orders have is open"
        return Explored(Outcome.UNKNOWN, schedules=task.schedules, reason=construct(reason))
    if all(len(block.leaves) < 2 for order in task.orders for block in order.blocks):
        return Explored(Outcome.DEADLOCK, *written, schedules=task.schedules, route=("any-order",))
    final = False
    tries: list[Sequence[Choice]] = []
    try:
        run = written[1].run(lenient(task.model, task.options.eager_bytes), origins=True)
        completing = Completing(run, task.orders, words_of(run, task.orders, firsts))
        if completing.complete():
            tries.append(completing.chosen())
        else:
            exact = completing.exact and not fresh_in_blocks(task)
            final = exact and task.model.family is Family.HOST
    except InapplicableError:
        pass
    if final:
        return Explored(Outcome.DEADLOCK, *written, schedules=task.schedules, route=("any-order",))
    for chosen in (*tries, *_random_orders(task, SAMPLES)):
        if task.expired():
            break
        found = task.decide(chosen)
        if found[0].outcome is Outcome.MISMATCH:
            # What disagrees is behind what is stuck in the written order.
            return Explored(
                found[0].outcome,
                *found,
                schedules=task.schedules,
                route=("rounds",),
                reordered=True,
            )
        if found[0].outcome is not Outcome.DEADLOCK:
            # No order mixes rounds, this one is not a deadlock, and the written one is stuck.
            return Explored(
                Outcome.POTENTIAL_DEADLOCK,
                *written,
                schedules=task.schedules,
                route=("cycle",),
                reordered=True,
            )
    why = construct("every tried order deadlocks, and no exact route says that all do")
    return Explored(Outcome.UNKNOWN, schedules=task.schedules, reason=why)
