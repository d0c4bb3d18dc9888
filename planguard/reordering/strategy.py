"""The cheapest exact route for plans with open order, and UNKNOWN where there is none.

========== ===================================================================== ==================
route      decides                                                               exact because
========== ===================================================================== ==================
rounds     some order mixes the rounds of a communicator                          that order was run
any-order  rounds are chains, and the order plays no part                         T1, T2
weak-order rounds are chains, blocks are bags in a row: can some order get stuck  T3
cycle      the same for any partial order, by search                              T4
smt        the same, by the solver, one component at a time                       T4
explorer   every combination of orders, one by one                                exhaustion
========== ===================================================================== ==================

Docs: docs/explanation/every-order-proofs.md has the proofs. Every order that is shown was decided
by the executor as a fixed order.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.errors import OrderError
from planguard.execution.findings.reason import (
    LIMITS,
    Kind,
    Reason,
    construct,
    out_of_time,
    too_many,
)
from planguard.execution.findings.sequence import mixes
from planguard.options import running
from planguard.plan.taking import Taking
from planguard.plan.vocabulary import BLOCKING, MESSAGES
from planguard.reordering.blocks import Block, RankOrder, take_apart
from planguard.reordering.explorer import (
    LIMIT,
    Choice,
    Explored,
    Task,
    combinations_of,
    explore_all,
    put_in_order,
)
from planguard.reordering.join import NAMELESS
from planguard.reordering.orders.rounds import (
    is_answered,
    movable,
    queues_of,
    swaps,
    tie_twins,
    unlabeled_partner,
)
from planguard.reordering.orders.stuck_early import in_every_order, stuck_ranks
from planguard.reordering.orders.weak_fast import decide_bags
from planguard.reordering.orders.weak_outcomes import any_outcome, out_of_round
from planguard.reordering.orders.weak_search import departures, fresh_in_blocks, search
from planguard.semantics.model import Family
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection

    from planguard.execution.decide import Decider, Decision
    from planguard.options import CheckOptions
    from planguard.plan.fixed import FixedPlan
    from planguard.plan.plan import Plan
    from planguard.semantics.model import ExecutionModel

__all__ = ["LIMIT", "Explored", "combinations_of", "explore", "put_in_order"]


NAMELESS_LIMIT = 256
"""Most combinations of orders that are decided though not all of them can say what is asked."""


def explore(plan: Plan, columns: Any, model: ExecutionModel, options: CheckOptions) -> Explored:
    """Decide a plan over all orders that its ``unordered`` blocks admit.

    Args:
        plan: The plan; its only open construct is ``unordered``.
        columns: Its columns.
        model: The execution model.
        options: Options; ``budget`` bounds the work in seconds.
    """
    # Where an order moves messages past collectives of their group, sequence numbers change.
    is_numbered = model.counts_messages and mixes(columns, in_blocks=True) is not None
    quick = None if is_numbered else decide_bags(plan, columns, model, options)
    if quick is not None:
        return quick
    task, problem = prepare(plan, columns, model, options)
    if problem is not None:
        return _without_identity(task, problem)
    if is_numbered:
        return _explore_if_small(task, Explored(Outcome.UNKNOWN))
    found = decide(task)
    if found.outcome is Outcome.UNKNOWN:
        return _explore_if_small(task, found)
    return found


def prepare(
    plan: Plan, columns: Any, model: ExecutionModel, options: CheckOptions
) -> tuple[Task, Reason | None]:
    """Return the plan taken apart, and why it cannot be decided (None if it can)."""
    deadline = running(options).deadline
    _, orders = take_apart(plan, columns)
    task = Task(Taking(plan), orders, model, options, deadline, source=(plan, columns))
    problem = label_movable(plan, orders, use_tags=model.use_tags)
    if problem is None:
        task.orders = [_tied(order, model) for order in orders]
    return task, problem


def decide(task: Task) -> Explored:
    """Decide by the cheapest route but exhaustion; UNKNOWN with the reason where none is exact."""
    firsts = _firsts(task)
    model = task.model
    swapped = _swapped(task)
    written = _written(task, firsts, is_plain=not swapped)
    decision = written[0]
    early = _stuck_anyway(task, written)
    if early is not None:
        return early
    left = departures(task)
    if left and decision.outcome is Outcome.MISMATCH:  # one order that is not stuck settles it
        return Explored(decision.outcome, *written, schedules=1, route=("rounds",), reordered=True)
    if left:
        return Explored(Outcome.UNKNOWN, schedules=task.schedules, reason=construct(left))
    if swapped:
        return out_of_round(task, firsts, swapped, written)
    if all(_is_free(order, model) for order in task.orders):
        return Explored(decision.outcome, *written, schedules=1, route=("any-order",))
    # Matching is the same in every order, so whether members agree is too.
    if decision.outcome is Outcome.MISMATCH:
        return Explored(decision.outcome, *written, schedules=1, route=("rounds",))
    if decision.outcome is Outcome.DEADLOCK:
        return any_outcome(task, firsts, written)
    if decision.outcome is Outcome.POTENTIAL_DEADLOCK:
        return Explored(
            decision.outcome, *written, schedules=1, route=("any-order",), reordered=True
        )
    return search(task, firsts, written)


def _firsts(task: Task) -> tuple[Choice, ...]:
    """Return the written order of every rank."""
    return tuple(tuple(block.extension for block in order.blocks) for order in task.orders)


def _written(
    task: Task, firsts: tuple[Choice, ...], *, is_plain: bool
) -> tuple[Decision, Decider, FixedPlan]:
    """Decide the written order, without writing the plan anew where it shows to be safe."""
    found = None
    if is_plain and all(choice == tuple(range(len(choice))) for one in firsts for choice in one):
        found = task.decide_written()
    return found or task.decide(firsts)


def _swapped(task: Task) -> list[tuple[int, int, int, int]]:
    """Return calls of one queue that may change places, first those that look different."""
    found = [
        (order.rank, number, first, second, _looks(block, first) == _looks(block, second))
        for order in task.orders
        for number, block in enumerate(order.blocks)
        for first, second in swaps(block, use_tags=task.model.use_tags)
    ]
    return [one[:4] for one in sorted(found, key=lambda one: one[4])]


def _looks(block: Block, leaf: int) -> dict[str, Any]:
    """Return what the partners of a call compare with their own."""
    own = {"label", "id", "work", "src", "x-after", "x-at"}
    return {key: value for key, value in block.leaves[leaf].fields.items() if key not in own}


def _stuck_anyway(task: Task, written: tuple[Decision, Decider, FixedPlan]) -> Explored | None:
    """Return DEADLOCK where ranks are stuck before anything of open order plays a part."""
    if written[0].outcome is not Outcome.DEADLOCK or fresh_in_blocks(task):
        return None
    ranks = stuck_ranks(written[0].execution, task.orders)
    if not ranks:
        return None
    certain = in_every_order(written[0], ranks)
    return Explored(
        Outcome.DEADLOCK, certain, *written[1:], schedules=task.schedules, route=("any-order",)
    )


def _without_identity(task: Task, problem: Reason) -> Explored:
    """Decide what needs no labels: what is stuck in every order, and kinds or sizes that differ.

    An order in which calls meet that differ in kind or size settles MISMATCH, whatever is whose.
    """
    firsts = _firsts(task)
    written = task.decide(firsts)
    early = _stuck_anyway(task, written)
    if early is not None:
        return early
    found = out_of_round(task, firsts, _swapped(task), written)
    if found.outcome is Outcome.MISMATCH:
        return found
    if task.combinations(NAMELESS_LIMIT) <= NAMELESS_LIMIT:
        with contextlib.suppress(OrderError):  # some order is no valid program
            every = explore_all(task)
            if every.outcome in NAMELESS:
                return every
    return Explored(Outcome.UNKNOWN, schedules=task.schedules, reason=problem)


def _explore_if_small(task: Task, found: Explored) -> Explored:
    """Try every order where they are few or there is a budget; else say why it is UNKNOWN."""
    if task.expired():
        return replace(found, reason=_late(found.reason))
    if task.options.budget is None and task.combinations(LIMIT) > LIMIT:
        many = too_many(f"more than {LIMIT:,} combinations of orders")
        return replace(found, reason=found.reason.then(many) if found.reason else many)
    explored = explore_all(task)
    if explored.outcome is Outcome.UNKNOWN:
        both = [reason for reason in (explored.reason, found.reason) if reason is not None]
        return replace(explored, reason=both[0].then(both[-1]) if len(both) > 1 else both[0])
    return explored


def _late(reason: Reason | None) -> Reason:
    """Return that the budget is used up, and what stood in the way before."""
    if reason is None:
        return out_of_time("")
    return reason if reason.kind in LIMITS else out_of_time(f": {reason.detail}")


def _tied(order: RankOrder, model: ExecutionModel) -> RankOrder:
    if not any(True for _ in order.blocks):
        return order
    return RankOrder(
        order.rank,
        tuple(
            tie_twins(part, use_tags=model.use_tags) if isinstance(part, Block) else part
            for part in order.parts
        ),
    )


def label_movable(
    plan: Plan,
    orders: list[RankOrder],
    *,
    use_tags: bool = False,
    unnamed: Collection[tuple[int, int]] = (),
) -> Reason | None:
    """Give communication that may change places its implicit identity; say why if there is none.

    Args:
        plan: The plan.
        orders: The order structure of every rank.
        use_tags: Whether tags separate channels.
        unnamed: Rank and action of calls that need no identity.
    """
    programs = plan.code.rank_program
    meets = is_answered(orders, use_tags=use_tags)
    for order in orders:
        for number, block in enumerate(order.blocks):
            for at in movable(block, use_tags=use_tags):
                fields = block.leaves[at].fields
                mine = queues_of(block.leaves[at], use_tags=use_tags)
                if "label" in fields or not any(meets(queue, order.rank) for queue in mine):
                    continue
                if (order.rank, block.leaves[at].action) in unnamed:
                    continue
                op = fields["op"]
                if op in MESSAGES or op == "batch":
                    return Reason(
                        Kind.IDENTITY,
                        f"an unlabeled {op} that may change places with another of its channel",
                    )
                if not _same_program(plan, fields, order.rank):
                    return Reason(
                        Kind.IDENTITY,
                        f"an unlabeled {op} that may move, on ranks with different programs",
                    )
                fields["label"] = f"~{programs[order.rank]}:{number}:{block.leaves[at].path}"
    partner = unlabeled_partner(orders, use_tags=use_tags)
    return Reason(Kind.IDENTITY, partner) if partner else None


def _same_program(plan: Plan, fields: dict[str, Any], rank: int) -> bool:
    name = fields.get("group", "world")
    programs = plan.code.rank_program
    members: Any = range(plan.world_size)
    if name != "world":
        members = next(
            (
                g.members(rank, plan.mesh)
                for g in plan.groups
                if plan.group_name(g.name, rank) == name
            ),
            range(plan.world_size),
        )
    return len({programs[member] for member in members}) == 1


def _is_free(order: RankOrder, model: ExecutionModel) -> bool:
    """Whether the order inside this rank's blocks plays no part: T1 holds and nothing blocks."""
    if model.family is not Family.HOST or model.pre_barrier:
        return not any(len(block.leaves) > 1 for block in order.blocks)
    return all(
        len(block.leaves) < 2 or all(_never_blocks(leaf.fields) for leaf in block.leaves)
        for block in order.blocks
    )


def _never_blocks(fields: dict[str, Any]) -> bool:
    op = fields["op"]
    if op in BLOCKING:
        return True
    if op == "compute":
        return not fields.get("deps")
    return bool(fields.get("async")) and op not in {"barrier", "broadcast"}


# Names under which other modules of this package know these.
_label, _combinations = label_movable, combinations_of
