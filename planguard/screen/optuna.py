"""Optuna behind the gate: an unsafe trial is pruned before it trains, and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.errors import UsageError
from planguard.screen.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable

CODE = "planguard.code"
OUTCOME = "planguard.outcome"
MESSAGE = "planguard.message"


def screened(
    objective: Callable[[Any], Any], to_plan: Callable[[Any], Any], **options: Any
) -> Callable[[Any], Any]:
    """Return an objective that checks the plan of a trial before it trains.

    A trial that may not run raises ``TrialPruned``; its user attributes ``planguard.outcome``,
    ``planguard.code`` and ``planguard.message`` say why. ``to_plan`` suggests the parameters the
    plan depends on; the objective gets the same values when it suggests them again.

    Args:
        objective: The objective, called with the trial.
        to_plan: Makes a plan from the trial.
        options: Keywords of ``planguard.screen.gate.Gate``.

    Raises:
        UsageError: Optuna is not installed.
    """
    try:
        from optuna import TrialPruned
    except ImportError:
        hint = "pip install 'planguard[optuna]'"
        raise UsageError("Optuna is not installed", hint=hint) from None
    gate = Gate(to_plan, **options)

    def behind(trial: Any) -> Any:
        decision = gate(trial)
        trial.set_user_attr(OUTCOME, decision.outcome)
        if decision.code:
            trial.set_user_attr(CODE, decision.code)
            trial.set_user_attr(MESSAGE, decision.message)
        if not decision.runs:
            raise TrialPruned(f"{decision.code}: {decision.message}")
        return objective(trial)

    return behind
