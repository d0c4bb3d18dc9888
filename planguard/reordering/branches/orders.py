"""Open orders around something else that is open: every order is a plan of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.errors import OrderError
from planguard.execution.findings.reason import out_of_time, too_many
from planguard.reordering.cases.together import (
    Part,
    combined,
    open_verdict,
    shown_of,
    together,
)
from planguard.reordering.explorer import LIMIT, combinations_of, put_in_order
from planguard.reordering.join import NAMELESS
from planguard.reordering.strategy import NAMELESS_LIMIT, prepare

if TYPE_CHECKING:
    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan
    from planguard.reordering.cases.together import Decide
    from planguard.semantics.model import ExecutionModel
    from planguard.verdict import Verdict

CODE = "PG102"


def over_each_order(
    plan: Plan, columns: Any, model: ExecutionModel, options: CheckOptions, decide: Decide
) -> Verdict:
    """Decide a plan over all orders of its `unordered` blocks, one after the other.

    Args:
        plan: A plan with `unordered` and something that makes a fixed order inexact.
        columns: Its columns.
        model: The execution model.
        options: Options; ``budget`` bounds the exploration in seconds.
        decide: Decides a plan without open order.
    """
    task, problem = prepare(plan, columns, model, options)
    if problem is not None and task.combinations(NAMELESS_LIMIT) > NAMELESS_LIMIT:
        return open_verdict(plan, model.name, problem)
    if options.budget is None and task.combinations(LIMIT) > LIMIT:
        reason = f"more than {LIMIT:,} combinations of orders beside what else is open"
        return open_verdict(plan, model.name, too_many(reason))
    parts: list[Part] = []
    for chosen in combinations_of(task.orders):
        if task.expired():
            late = out_of_time(f" after {len(parts):,} combinations of orders")
            # Without labels more time would not help: it is never SAFE.
            return open_verdict(plan, model.name, problem or late)
        try:
            ordered = put_in_order(task.taking, task.orders, chosen)
        except OrderError:
            if problem is None:
                raise
            return open_verdict(plan, model.name, problem)
        parts.append(Part(ordered, decide(ordered.plan, brief=True), differs=True))
    outcome = together(parts)
    if problem is not None and outcome not in NAMELESS:
        return open_verdict(plan, model.name, problem)
    shown = shown_of(parts, outcome)
    verdict = combined(plan, parts, decide(shown.ordered.plan, brief=False), shown, CODE)
    return replace(verdict, evidence=replace(verdict.evidence, schedules=len(parts)))
