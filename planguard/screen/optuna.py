"""Optuna behind the gate: an unsafe trial is pruned before it trains, and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.errors import MissingPackageError
from planguard.screen.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CODE = "planguard.code"
OUTCOME = "planguard.outcome"
MESSAGE = "planguard.message"


def screened(
    objective: Callable[[Any], Any],
    to_plan: Callable[[Any], Any],
    *,
    params: Callable[[Any], Mapping[str, Any]] | None = None,
    **options: Any,
) -> Callable[[Any], Any]:
    """Return an objective that checks the plan of a trial before it trains.

    A trial that may not run raises ``TrialPruned``; its user attributes ``planguard.outcome``,
    ``planguard.code`` and ``planguard.message`` say why.

    Args:
        objective: The objective, called with the trial; with ``params``, with what that returns.
        to_plan: Makes a plan from the same. From a trial it suggests the parameters that the plan
            depends on, and the objective gets the same values when it suggests them again.
        params: Suggests the parameters of a trial and returns them by name, so that ``objective``
            and ``to_plan`` are functions of parameters that know nothing of Optuna.
        options: Keywords of ``planguard.screen.gate.Gate``.

    Raises:
        MissingPackageError: Optuna is not installed.
    """
    try:
        from optuna import TrialPruned
    except ImportError:
        raise MissingPackageError("optuna", "a screened objective") from None
    gate = Gate(to_plan, **options)

    def behind(trial: Any) -> Any:
        given = trial if params is None else dict(params(trial))
        decision = gate(given)
        trial.set_user_attr(OUTCOME, decision.outcome)
        if decision.code:
            trial.set_user_attr(CODE, decision.code)
            trial.set_user_attr(MESSAGE, decision.message)
        if not decision.runs:
            raise TrialPruned(f"{decision.code}: {decision.message}")
        return objective(given)

    return behind
