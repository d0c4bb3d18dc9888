"""What is decided of random plans, beside what brute force over all states says of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from oracle.answers import outcome_of
from oracle.enumerator import Effort, OracleBudget
from oracle.program import OracleUnsupported

import planguard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def compare(
    seeds: range, random_plan: Callable[[int], dict[str, Any]], models: Sequence[str], states: int
) -> Counter[tuple[str, str]]:
    """Check a plan of each seed, under the models in turn.

    Returns:
        How often which outcome of brute force met which of ours.

    Raises:
        AssertionError: A verdict that is complete, or SAFE, is not that of brute force; or one
            that is not complete has no reason.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        plan, model = random_plan(seed), models[seed % len(models)]
        try:
            found = planguard.check(plan, model=model)
        except planguard.PlanError:  # such as a group that is used before it is made
            seen["refused", "UNKNOWN"] += 1
            continue
        outcome = found.outcome.value
        if found.unknown:
            seen["not asked", outcome] += 1
            continue
        try:
            expected = outcome_of(plan, model, Effort(states, 0, seed))
        except (OracleBudget, OracleUnsupported):
            seen["not judged", outcome] += 1
            continue
        seen[expected, outcome] += 1
        is_weaker = not found.complete and outcome != "SAFE"
        assert outcome == expected or is_weaker, (seed, model, expected, outcome)
        assert found.complete or found.reasons, (seed, model, outcome)
    return seen
