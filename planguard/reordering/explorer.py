"""Every combination of linear extensions, each decided as a fixed order: the reference.

Exact, because a fixed order is decided exactly; slow, because there are factorially many. The other
routes must agree with it wherever both decide.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.execution.decide import Decider, Decision
from planguard.execution.findings.reason import out_of_time
from planguard.execution.running.expand import expand
from planguard.options import FOREVER
from planguard.plan.fixed import FixedPlan
from planguard.reordering.blocks import Block, RankOrder, count_extensions, extensions
from planguard.reordering.join import Case, join, says_disagreement
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.execution.findings.reason import Reason
    from planguard.options import CheckOptions, Deadline
    from planguard.plan.plan import Plan
    from planguard.plan.taking import Taking
    from planguard.semantics.model import ExecutionModel

LIMIT = 2_000
"""Most combinations of orders that are explored when no budget is given."""

Choice = tuple[tuple[int, ...], ...]
"""A linear extension of every block of a rank."""


@dataclass(frozen=True)
class Explored:
    """What all orders together say.

    Attributes:
        outcome: The outcome over all orders; UNKNOWN when not all were decided.
        shown: The order that shows it, and its decision.
        decider: The decider of that order.
        ordered: The fixed plan of that order.
        schedules: How many orders were decided.
        route: The routes taken, names of ``evidence.route``.
        reason: Why it is UNKNOWN.
        reordered: What is shown holds in some orders only.
        z3_ms: Milliseconds spent in the solver.
    """

    outcome: Outcome
    shown: Decision | None = None
    decider: Decider | None = None
    ordered: FixedPlan | None = None
    schedules: int = 0
    route: tuple[str, ...] = ("explorer",)
    reason: Reason | None = None
    reordered: bool = False
    z3_ms: float = 0.0


@dataclass
class Task:
    """A plan with open order under one model, and how many of its orders were decided.

    Attributes:
        taking: Makes the plan of an order.
        orders: The order structure of every rank.
        model: The execution model.
        options: Options of the check.
        deadline: The end of the budget.
        schedules: Orders decided so far.
        z3_ms: Milliseconds spent in the solver so far.
        source: The plan itself and its columns.
    """

    taking: Taking
    orders: list[RankOrder]
    model: ExecutionModel
    options: CheckOptions
    deadline: Deadline = FOREVER
    schedules: int = 0
    z3_ms: float = 0.0
    source: tuple[Plan, Any] | None = None

    def expired(self) -> bool:
        """Whether the budget is used up."""
        return self.deadline.expired()

    def left(self) -> float | None:
        """Return the seconds left, or None without a budget."""
        return self.deadline.left()

    def decide(self, chosen: Sequence[Choice]) -> tuple[Decision, Decider, FixedPlan]:
        """Decide one order exactly."""
        ordered = put_in_order(self.taking, self.orders, chosen)
        decider = Decider(ordered.plan, expand(ordered.plan), self.model, self.options)
        self.schedules += 1
        return decider.decide(), decider, ordered

    def decide_written(self) -> tuple[Decision, Decider, FixedPlan] | None:
        """Decide the written order on the columns of the plan, where that shows it to be safe.

        It is what `decide` makes of the written order, without writing the plan anew, if no label
        was added: none is where no call may change places with another of its queue.
        """
        if self.source is None:
            return None
        plan, columns = self.source
        decider = Decider(plan, columns, self.model, self.options)
        decision = decider.decide()
        if decision.outcome is not Outcome.SAFE:
            return None
        self.schedules += 1
        offsets = columns.rank_off
        same = tuple(range(offsets[rank + 1] - offsets[rank]) for rank in range(plan.world_size))
        return decision, decider, FixedPlan(plan, same)

    def combinations(self, limit: int) -> int:
        """Return how many combinations of orders there are, or a number above ``limit``."""
        total = 1
        for order in self.orders:
            for block in order.blocks:
                total *= count_extensions(block, limit + 1)
                if total > limit:
                    return total
        return total


def put_in_order(
    taking: Taking, orders: Sequence[RankOrder], chosen: Sequence[Choice]
) -> FixedPlan:
    """Return the fixed plan of one combination of linear extensions.

    Raises:
        OrderError: It is no valid program.
    """
    taken, labels = [], []
    for order, choice in zip(orders, chosen, strict=True):
        mine: list[range] = []
        named: dict[int, str] = {}
        blocks = iter(choice)
        for part in order.parts:
            if not isinstance(part, Block):
                _append(mine, part.action)
                continue
            for at in next(blocks):
                leaf = part.leaves[at]
                mine.append(range(leaf.action, leaf.action + 1))
                if "label" in leaf.fields:
                    named[leaf.action] = leaf.fields["label"]
        taken.append(mine)
        labels.append(named)
    return taking.fixed(taken, labels)


def _append(taken: list[range], action: int) -> None:
    """Take one more action that stands in no block, with those in front of it where it can be."""
    if taken and len(taken[-1]) and taken[-1].stop == action:
        taken[-1] = range(taken[-1].start, action + 1)
    else:
        taken.append(range(action, action + 1))


def combinations_of(orders: Sequence[RankOrder]) -> Iterator[tuple[Choice, ...]]:
    """Yield every choice of one linear extension per block, none of them held in advance."""
    blocks = [block for order in orders for block in order.blocks]
    sizes = [sum(1 for _ in order.blocks) for order in orders]
    for flat in _choices(blocks):
        rest = iter(flat)
        yield tuple(tuple(itertools.islice(rest, size)) for size in sizes)


def _choices(blocks: list[Block]) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not blocks:
        yield ()
        return
    chosen: list[tuple[int, ...]] = []
    turns = [extensions(blocks[0])]
    while turns:
        found = next(turns[-1], None)
        if found is None:
            turns.pop()
            del chosen[-1:]
            continue
        chosen.append(found)
        if len(chosen) < len(blocks):
            turns.append(extensions(blocks[len(chosen)]))
        else:
            yield tuple(chosen)
            chosen.pop()


def explore_all(task: Task) -> Explored:
    """Decide every combination of orders of a plan, within its budget."""
    seen: Counter[Case] = Counter()
    kept: dict[Outcome, tuple[Decision, Decider, FixedPlan]] = {}
    mixing: tuple[Decision, Decider, FixedPlan] | None = None
    for chosen in combinations_of(task.orders):
        if task.expired():
            reason = out_of_time(f" after {seen.total():,} combinations of orders")
            return Explored(Outcome.UNKNOWN, schedules=task.schedules, reason=reason)
        found = task.decide(chosen)
        case = Case(found[0].outcome, mixes(found[0]))
        seen[case] += 1
        kept.setdefault(case.outcome, found)
        if mixing is None and case.mixes:
            mixing = found
    outcome = join(seen)
    shown = kept.get(outcome) or kept[max(kept, key=lambda one: one.severity)]
    if outcome is Outcome.MISMATCH and mixing is not None:
        shown = kept.get(outcome, mixing)
    several = seen.total() > 1 or shown[0].outcome is not outcome
    open_ended = outcome not in {Outcome.DEADLOCK, Outcome.SAFE}
    return Explored(outcome, *shown, schedules=seen.total(), reordered=several and open_ended)


def mixes(decision: Decision) -> bool:
    """Whether an order forms a match whose members disagree."""
    return any(says_disagreement(cause.finding) for cause in decision.causes)
