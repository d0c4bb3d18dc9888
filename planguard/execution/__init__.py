"""One deterministic execution of a plan: columns, lanes, stuck states and their reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planguard.plan.plan import Plan


def stuck_actions(plan: Plan, model: str, *, worst: bool = False) -> dict[int, int]:
    """Return the first action at which each stuck rank stands, for the most lenient execution.

    Args:
        plan: The plan.
        model: Name of the execution model.
        worst: Take the execution that makes the least progress instead.

    Returns:
        Action index by global rank; empty when the plan completes.
    """
    from planguard.execution.findings.stuck import stuck_by_rank
    from planguard.execution.running.executor import execute
    from planguard.execution.running.expand import expand
    from planguard.options import EAGER_BYTES
    from planguard.semantics.model import find_model, lenient, strict

    columns = expand(plan)
    found = find_model(model)
    scenario = strict(found) if worst else lenient(found, EAGER_BYTES)
    execution = execute(plan, columns, found, scenario, origins=True)
    return {rank: place.action for rank, place in stuck_by_rank(execution).items()}
