"""Does some order get stuck, when the written one is safe and matching is the same in all?

The may-wait graph of the strict end over-approximates: without a cycle in it, no order of no
execution gets stuck. A cycle with distinct lanes is turned into orders and executed before it
counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planguard.errors import InternalError
from planguard.execution.findings.reason import construct, out_of_time
from planguard.plan.vocabulary import STRAYING
from planguard.reordering.blocks import Block
from planguard.reordering.explorer import Explored, explore_all
from planguard.reordering.orders.cycles import Component, Stuck, components, exhaust, shortest
from planguard.reordering.orders.encoding import solve
from planguard.reordering.orders.prefix import rest_of
from planguard.reordering.orders.shrink import orders_of, put_back
from planguard.reordering.orders.weak_graph import may_wait
from planguard.reordering.orders.weak_words import InapplicableError, lanes_of
from planguard.reordering.smt import Answer, Limits
from planguard.semantics.model import Family, strict
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from planguard.execution.decide import Decider, Decision
    from planguard.execution.findings.reason import Reason
    from planguard.execution.running.executor import Execution
    from planguard.plan.fixed import FixedPlan
    from planguard.reordering.blocks import RankOrder
    from planguard.reordering.explorer import Choice, Task
    from planguard.reordering.orders.weak_graph import MayWait
    from planguard.reordering.orders.weak_words import RankLanes

    Found = tuple[Decision, Decider, FixedPlan]

SILENT = {"compute", "copy"}
"""Operations that nobody else notices."""
LARGE = 1_000
"""Actions in blocks from which a cycle is looked for in the first blocks alone, before the rest."""
EARLY = (1, 4)
"""How many blocks of every rank those are."""
AGREE = 64
"""Largest number of combinations of orders that are explored to confirm that no cycle is one."""


def search(task: Task, firsts: tuple[Choice, ...], written: Found) -> Explored:
    """Look for an order that gets stuck.

    Args:
        task: The plan; no order mixes rounds.
        firsts: The written order of every rank.
        written: Its decision: SAFE.
    """
    try:
        _check_fit(task)
        read = _read(task, firsts, written)
        early = _early(task, firsts, read)
        if early is not None:
            return early
        graph, orders = _graph(read, firsts), read.orders
    except InapplicableError as error:
        return Explored(Outcome.UNKNOWN, schedules=task.schedules, reason=construct(str(error)))
    route = ["weak-order" if graph.weak else "cycle"]
    found = components(graph)
    for number, members in enumerate(found):
        part = Component(graph, members, orders)
        stuck, reason = _one(task, part, route)
        if stuck is not None:
            return _shown(task, orders_of(graph, stuck, orders, firsts), firsts, tuple(route))
        if reason is not None:
            return _unknown(task, part, reason, number, len(found))
    safe = Explored(
        Outcome.SAFE, *written, schedules=task.schedules, route=tuple(route), z3_ms=task.z3_ms
    )
    # What no certificate covers is decided a second time where that is cheap.
    if "smt" in route or (found and task.options.certificate):
        _confirm(task)
    return safe


@dataclass(frozen=True)
class _Read:
    """A strict run of some programs in one order, and its lanes, which are those of any order."""

    run: Execution
    orders: list[RankOrder]
    lanes: list[RankLanes]


def _graph(read: _Read, firsts: tuple[Choice, ...], blocks: int = 0) -> MayWait:
    return may_wait(read.run, read.orders, firsts, lanes=read.lanes, blocks=blocks)


def _read(task: Task, firsts: tuple[Choice, ...], written: Found) -> _Read:
    """Return a strict run whose lanes are those of any order.

    Where the host of a rank is held up in a way that depends on the order, that of what follows a
    prefix that decides nothing (`prefix`); its blocks are those of the plan.

    Raises:
        InapplicableError: With the reason.
    """
    run = written[1].run(strict(task.model), origins=True)
    try:
        return _Read(run, task.orders, lanes_of(run, task.orders, firsts))
    except InapplicableError:
        if task.model.family is Family.HOST:
            raise
        rest, orders = rest_of(task, firsts)
        return _Read(rest, orders, lanes_of(rest, orders, firsts))


def _early(task: Task, firsts: tuple[Choice, ...], read: _Read) -> Explored | None:
    """Return an order of a large plan that gets stuck in its first blocks, if one is found there.

    Any cycle decides, and one at the begin of the program is part of the graph of the whole.
    """
    orders = read.orders
    if sum(len(block.leaves) for order in orders for block in order.blocks) < LARGE:
        return None
    most = max(sum(len(block.leaves) > 1 for block in order.blocks) for order in orders)
    for blocks in EARLY:
        if 4 * blocks > most:  # most of the plan: its graph is asked for anyway
            break
        graph = _graph(read, firsts, blocks)
        for members in components(graph):
            stuck = shortest(Component(graph, members, orders))
            if stuck is not None:
                route = ("weak-order" if graph.weak else "cycle",)
                found = _shown(task, orders_of(graph, stuck, orders, firsts), firsts, route)
                return None if found.outcome is Outcome.UNKNOWN else found
    return None


def _check_fit(task: Task) -> None:
    """Refuse what makes the words of an action depend on the order.

    Raises:
        InapplicableError: With the reason.
    """
    model = task.model
    for order in task.orders:
        for block in order.blocks:
            if len(block.leaves) < 2:
                continue
            # Where a communicator is created is known in every order (`weak_words`).
            ops = {leaf.fields["op"] for leaf in block.leaves} - {"init"}
            if ops & STRAYING:
                raise InapplicableError(f"`{min(ops & STRAYING)}` inside a block of open order")
            if "barrier" in ops and model.barrier_last:
                raise InapplicableError("a barrier of gloo inside a block of open order")
    if model.exit_withdraws and _has(task, "exit"):
        raise InapplicableError("a process that may leave beside a block of open order")
    if model.drops_kill and _has(task, "drop"):
        raise InapplicableError("a handle that is dropped beside a block of open order")


def fresh_in_blocks(task: Task) -> set[str]:
    """Return the operations in blocks of open order whose place there changes what others mean."""
    return {
        leaf.fields["op"]
        for order in task.orders
        for block in order.blocks
        if len(block.leaves) > 1
        for leaf in block.leaves
    } & STRAYING


def departures(task: Task) -> str:
    """Return why what a rank issues depends on its order; empty if it does not.

    Where an exit may come before a call or after it, some orders drop the call. What meets is then
    not the same in all, and the lanes of one order say nothing of another: only whole orders can
    be asked.
    """
    for order in task.orders:
        for block in order.blocks:
            exits = [at for at, leaf in enumerate(block.leaves) if leaf.fields["op"] == "exit"]
            if not exits:
                continue
            below, above = block.below, block.above
            for at in exits:
                tied = below[at] | above[at] | 1 << at
                if any(
                    not tied >> other & 1 and leaf.fields["op"] not in SILENT
                    for other, leaf in enumerate(block.leaves)
                ):
                    return f"an `exit` of rank {order.rank} that may come before other calls"
    return ""


def _has(task: Task, op: str) -> bool:
    return any(
        leaf.fields["op"] == op
        for order in task.orders
        for part in order.parts
        for leaf in (part.leaves if isinstance(part, Block) else (part,))
    )


def _one(task: Task, part: Component, route: list[str]) -> tuple[Stuck | None, Reason | None]:
    """Return a cycle of one component, or why it is open; neither if there is no cycle."""
    stuck = shortest(part)
    if stuck is not None:
        return stuck, None
    stuck, final = exhaust(part)
    if "cycle" not in route:
        route[0] = "cycle"
    if stuck is not None or final:
        return stuck, None
    if task.expired():
        return None, out_of_time("")
    options = task.options
    limits = Limits(
        seconds=task.left(),
        memory_mb=options.solver_memory_mb,
        process=options.solver_process,
    )
    if "smt" not in route:
        route.append("smt")
    stuck, answer = solve(part, limits)
    task.z3_ms += answer.ms
    if stuck is not None and not part.fits([*stuck.stands]):
        # What queue and host of a rank ask for has no order; another cycle might.
        return None, construct("the deadlock that the solver found needs two orders of one rank")
    return stuck, answer.reason if answer.answer is Answer.UNKNOWN else None


def _unknown(task: Task, part: Component, reason: Reason, done: int, parts: int) -> Explored:
    lanes = len({part.graph.lane[stand] for stand in part.stands})
    said = replace(
        reason,
        detail=f"{reason.detail}; decided: the written order is safe, no order mixes rounds, "
        f"{done} of {parts} components; open: whether {len(part.stands):,} waits of {lanes} ranks "
        "form a deadlock",
    )
    return Explored(Outcome.UNKNOWN, schedules=task.schedules, reason=said, z3_ms=task.z3_ms)


def _shown(
    task: Task, chosen: tuple[Choice, ...], firsts: tuple[Choice, ...], route: tuple[str, ...]
) -> Explored:
    """Execute the orders of a cycle and show them, with as few ranks reordered as it takes."""
    found = task.decide(chosen)
    if found[0].outcome is Outcome.SAFE:
        if task.model.family is Family.HOST:
            raise InternalError(
                "a cycle of the may-wait graph completes when it is executed",
                hint="please report the plan: no verdict is given",
            )
        reason = construct(
            "the order found to be stuck completes: the host runs ahead of what it started"
        )
        return Explored(Outcome.UNKNOWN, schedules=task.schedules, reason=reason)
    fewer = put_back(
        chosen, firsts, lambda tried: task.decide(tried)[0].outcome is not Outcome.SAFE
    )
    if fewer != chosen:
        found = task.decide(fewer)
    return Explored(
        Outcome.POTENTIAL_DEADLOCK,
        *found,
        schedules=task.schedules,
        route=route,
        reordered=True,
        z3_ms=task.z3_ms,
    )


def _confirm(task: Task) -> None:
    """Explore every order where there are few: solver and search must not be wrong.

    Raises:
        InternalError: Some order is not safe although they say so.
    """
    if task.combinations(AGREE) > AGREE:
        return
    explored = explore_all(task)
    if explored.outcome not in {Outcome.SAFE, Outcome.UNKNOWN}:
        raise InternalError(
            f"the search says SAFE and exploration {explored.outcome.value}",
            hint="please report the plan: no verdict is given",
        )
