"""What users call: thin functions over the layers below."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.errors import UnsafePlanError
from planguard.options import CheckOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict

PLAN_SUFFIXES = (".json", ".json.gz")
PLAN_SCHEMA = "planguard.plan"
GZIP = b"\x1f\x8b"
HEAD = 4096
"""Bytes that are looked at to tell a plan from other JSON."""


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
    """Whether an input is read as a plan: JSON that does not say it follows another schema."""
    if isinstance(obj, dict):
        return str(obj.get("schema", PLAN_SCHEMA)).startswith(PLAN_SCHEMA) and all(
            isinstance(key, str) for key in obj
        )
    if isinstance(obj, bytes):
        return (obj[:2] == GZIP or obj.lstrip()[:1] == b"{") and not _other_schema(obj)
    if isinstance(obj, (str, Path)) and str(obj).endswith(PLAN_SUFFIXES):
        return not _other_schema(_head(Path(obj)))
    return False


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD)
    except OSError:
        return b""  # the reader says what is wrong with the path


def _other_schema(data: bytes) -> bool:
    """Whether a JSON document begins with a schema that is not that of plans, or as a trace."""
    import re
    import zlib

    if data[:2] == GZIP:
        try:
            data = zlib.decompressobj(wbits=31).decompress(data[:HEAD], HEAD)
        except zlib.error:
            return False
    if data.lstrip()[:1] == b"[":
        return b'"ph"' in data  # a list of trace events, such as a timeline
    named = re.search(rb'"schema"\s*:\s*"(planguard\.[a-z]+)/', data[:HEAD])
    return named is not None and named[1].decode() != PLAN_SCHEMA


def check(
    plan: Any,
    *,
    model: str | None = None,
    budget: float | None = None,
    options: CheckOptions | None = None,
    planner: str | None = None,
    fix: bool = False,
    rules: bool | Mapping[str, Mapping[str, float]] = False,
) -> Verdict:
    """Decide a plan under an execution model.

    Args:
        plan: A ``Plan``, or anything ``load`` accepts.
        model: One of the nine models, or ``"all"``; the plan's own, else ``nccl``, if None.
        budget: Seconds for the parts that are not linear.
        options: All options at once; ``model`` and ``budget`` override it.
        planner: Adapter to read ``plan`` with.
        fix: Search a repair of an unsafe plan; the deciding finding's ``fixes`` hold it.
        rules: Also give the advice of the PG6xx rules, as notes; a mapping sets thresholds by
            code and name.

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
    loaded = load(plan, planner=planner)
    verdict = check_plan(loaded, chosen)
    if fix:
        from planguard import repair

        verdict = repair.fix(loaded, verdict, chosen).verdict
    if rules is not False:
        from planguard.simulate.rules import advise

        advice = advise(loaded, None if rules is True else rules)
        verdict = replace(verdict, findings=(*verdict.findings, *advice))
    return verdict


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
