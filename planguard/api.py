"""What users call: thin functions over the layers below."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.errors import UnsafePlanError
from planguard.options import CheckOptions

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict

PLAN_SUFFIXES = (".json", ".json.gz")


def load(obj: Any, *, planner: str | None = None, **options: Any) -> Plan:
    """Read a plan from a file, bytes, a dict, or a planner's own object.

    Args:
        obj: A path to a plan file, the file's bytes, the decoded document, a ``Plan``, or what a
            planner emits.
        planner: Name of the adapter that reads ``obj``; found by sniffing if None.
        options: Passed to the adapter.

    Raises:
        PlanError: If the input cannot be read as a plan.
        UsageError: If no adapter of that name exists.
    """
    from planguard import registry
    from planguard.plan.builder import PlanBuilder
    from planguard.plan.plan import Plan

    if isinstance(obj, Plan):
        return obj
    if planner is not None:
        return registry.find(planner).adapt(obj, PlanBuilder, **options)
    if _is_plan_file(obj):
        from planguard.plan.format import read

        return read(obj)
    return registry.sniff(obj).adapt(obj, PlanBuilder, **options)


def _is_plan_file(obj: Any) -> bool:
    if isinstance(obj, dict):
        return "schema" in obj or not obj or all(isinstance(key, str) for key in obj)
    if isinstance(obj, bytes):
        return obj[:2] == b"\x1f\x8b" or obj.lstrip()[:1] == b"{"
    return isinstance(obj, (str, Path)) and str(obj).endswith(PLAN_SUFFIXES)


def check(
    plan: Any,
    *,
    model: str | None = None,
    budget: float | None = None,
    options: CheckOptions | None = None,
    planner: str | None = None,
) -> Verdict:
    """Decide a plan under an execution model.

    Args:
        plan: A ``Plan``, or anything ``load`` accepts.
        model: One of the nine models, or ``"all"``; the plan's own, else ``nccl``, if None.
        budget: Seconds for the parts that are not linear.
        options: All options at once; ``model`` and ``budget`` override it.
        planner: Adapter to read ``plan`` with.

    Raises:
        PlanError: If ``plan`` cannot be read, or the model is unknown (PG907).
    """
    from dataclasses import replace

    from planguard.engine import check_plan

    chosen = options or CheckOptions()
    if model is not None:
        chosen = replace(chosen, model=model)
    if budget is not None:
        chosen = replace(chosen, budget=budget)
    return check_plan(load(plan, planner=planner), chosen)


def require(plan: Any, *, model: str | None = None, budget: float | None = None) -> Verdict:
    """Return the verdict of a SAFE plan; raise for any other outcome.

    Raises:
        UnsafePlanError: If the plan is unsafe or undecided; it carries the verdict.
        PlanError: If the plan cannot be read.
    """
    verdict = check(plan, model=model, budget=budget)
    if not verdict.safe:
        raise UnsafePlanError(verdict)
    return verdict
