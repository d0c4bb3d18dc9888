"""Host threads where a call blocks its thread: not decided yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.reordering.branches_together import open_verdict

if TYPE_CHECKING:
    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan
    from planguard.reordering.wildcards_decide import Fixed
    from planguard.semantics.model import ExecutionModel
    from planguard.verdict import Verdict


def over_interleavings(
    plan: Plan, flat: dict[str, Any], model: ExecutionModel, options: CheckOptions, fixed: Fixed
) -> Verdict:
    """Return UNKNOWN with its reason."""
    del flat, options, fixed
    return open_verdict(plan, model.name, "PG902", "`threads` where a call blocks its thread")
