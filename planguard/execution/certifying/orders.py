"""The certificate of a plan with open order: one order that completes, and its waits peeled off.

The waits are settled on the reading of the checker, not on the graph that decided: whatever the
engine got wrong does not reach the certificate.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from planguard.execution.running.completion import completion_order
from planguard.execution.running.executor import execute
from planguard.execution.running.expand import expand
from planguard.plan.format import read
from planguard.semantics.model import strict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.certificate.format import Step
    from planguard.certificate.orders import Orders
    from planguard.semantics.model import ExecutionModel

Place = tuple[int, int]


def completions(orders: Orders, model: ExecutionModel) -> Iterator[Step]:
    """Yield completions of the order that the checker runs, by numbers of the open program."""
    fixed = {key: value for key, value in orders.fixed.items() if key != "approximations"}
    plan = read(fixed)
    execution = execute(plan, expand(plan), model, strict(model), origins=True)
    for rank, at, *member in completion_order(execution):
        number = orders.numbers[rank][at]
        yield (rank, number, *member)  # type: ignore[misc]


def settle_all(orders: Orders) -> tuple[list[Place], str]:
    """Settle as many waits as can be; return them in order, and what is missing where some stay.

    What is not settled when nothing more can be lies on a cycle of the may-wait graph, or behind
    one (docs/explanation/every-order.md).
    """
    done, left, size = list[Place](), [*orders.stages], -1
    while left and len(done) > size:
        size = len(done)
        _pass(orders, left, done)
        left = [one for one in left if orders.settled[one] < len(orders.stages[one])]
    if not left:
        return done, ""
    rank, number = left[0]
    missing, _ = orders.missing(rank, number)
    return done, f"rank {rank}, action {number}: in some order {missing} may come late"


def _pass(orders: Orders, stands: list[Place], done: list[Place]) -> None:
    """Settle stands; one that lacks an arrival is tried again after the wait before that."""
    todo, waiting = stands[::-1], defaultdict[Place, list[Place]](list)
    while todo:
        stand = todo.pop()
        if orders.settled[stand] == len(orders.stages[stand]):
            continue
        missing, blocker = orders.missing(*stand)
        if missing:
            if blocker is not None:
                waiting[blocker].append(stand)
            continue
        orders.settle(*stand)
        done.append(stand)
        todo += [stand, *waiting.pop(stand, ())]
