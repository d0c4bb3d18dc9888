"""What users call: thin functions over the layers below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.arguments import FLAG, NAME, RULES, arguments
from planguard.errors import UnsafePlanError
from planguard.loading import load
from planguard.options import CheckOptions, chosen_options

__all__ = ["check", "load", "require"]

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.verdict import Verdict


@arguments(planner=NAME, fix=FLAG, rules=RULES)
def check(
    plan: Any,
    *,
    model: str | None = None,
    budget: float | str | None = None,
    options: CheckOptions | None = None,
    planner: str | None = None,
    fix: bool = False,
    rules: bool | Mapping[str, Mapping[str, float]] = False,
) -> Verdict:
    """Decide a plan under an execution model.

    Args:
        plan: A ``Plan``, or anything ``load`` accepts.
        model: One of the nine models, or ``"all"``; the plan's own, else ``nccl``, if None.
        budget: Seconds for the parts that are not linear, or text such as ``"200ms"``.
        options: All options at once; ``model`` and ``budget`` override it.
        planner: Adapter to read ``plan`` with.
        fix: Search a repair of an unsafe plan; the deciding finding's ``fixes`` hold it.
        rules: Also give the advice of the PG6xx rules, as notes; a mapping sets thresholds by
            code and name.

    Raises:
        PlanError: If ``plan`` cannot be read, or the model is unknown (PG907).
        UsageError: If the budget is no duration, or another option cannot be.
    """
    from dataclasses import replace

    from planguard.engine import check_plan

    chosen = chosen_options(options, model, budget)
    loaded = load(plan, planner=planner)
    verdict = check_plan(loaded, chosen)
    if fix:
        from planguard import repair

        verdict = repair.fix(loaded, verdict, chosen).verdict
    if rules is not False:
        from planguard.simulate.rules import advise

        advice = advise(loaded, None if rules is True else rules)
        verdict = replace(verdict, findings=(*verdict.findings, *advice))
    return verdict.about(loaded)


def require(plan: Any, *, model: str | None = None, budget: float | str | None = None) -> Verdict:
    """Return the verdict of a SAFE plan; raise for any other outcome.

    Raises:
        UnsafePlanError: If the plan is unsafe or undecided; it carries the verdict.
        PlanError: If the plan cannot be read.
    """
    verdict = check(plan, model=model, budget=budget)
    if not verdict.safe:
        raise UnsafePlanError(verdict)
    return verdict
