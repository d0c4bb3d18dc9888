"""Gate: what stands in front of an expensive trial, for any search that has a callback.

The hooks of Optuna, Ray Tune and Ax (``planguard.screen.optuna``, ``.tune``, ``.ax``) are made of
it; each framework is imported by its own module alone, when it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.arguments import CALLABLE, FLAG, arguments
from planguard.guard.guard import Guard
from planguard.loading import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict


@dataclass(frozen=True)
class Decision:
    """Whether a trial may run.

    Attributes:
        runs: Whether it may.
        outcome: Outcome of its plan.
        code: Code of the finding that decides, "" if there is none.
        message: What that finding says.
        verdict: The verdict.
    """

    runs: bool
    outcome: str
    code: str
    message: str
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """Return what a framework records with the trial."""
        return {"outcome": self.outcome, "code": self.code, "message": self.message}


class Gate:
    """Decides the plan of a trial before the trial runs; plans that communicate alike only once.

    Example:
        >>> from planguard import PlanBuilder
        >>> from planguard.screen.gate import Gate
        >>> def to_plan(config):
        ...     plan = PlanBuilder(2)
        ...     for rank in range(2):
        ...         for _ in range(config["steps"][rank]):
        ...             plan.program(rank).all_reduce(bytes=4)
        ...     return plan.build()
        >>> gate = Gate(to_plan)
        >>> gate({"steps": (2, 2)}).runs
        True
        >>> gate({"steps": (2, 1)}).code
        'PG007'

    Args:
        to_plan: Makes the plan of a trial, or anything ``planguard.load`` reads, from what the
            search hands to its objective.
        planner: Adapter to read it with.
        model: Execution model; the plan's own, else ``nccl``, if None.
        budget: Seconds for the parts of one check that are not linear.
        allow_unknown: Let undecided trials run. They are held back unless told so.
    """

    @arguments(to_plan=CALLABLE, allow_unknown=FLAG)
    def __init__(
        self,
        to_plan: Callable[[Any], Any],
        *,
        planner: str | None = None,
        model: str | None = None,
        budget: float | None = None,
        allow_unknown: bool = False,
    ) -> None:
        def read(candidate: Any) -> Plan:
            return load(candidate, planner=planner)

        self._to_plan = to_plan
        self._guard = Guard(model=model, budget=budget, load=read)
        self._allow_unknown = allow_unknown

    def __call__(self, trial: Any) -> Decision:
        """Decide one trial.

        Raises:
            PlanError: What ``to_plan`` returns is no plan.
        """
        verdict = self._guard.check(self._to_plan(trial))
        runs = verdict.safe or (verdict.unknown and self._allow_unknown)
        first = None if verdict.safe or not verdict.findings else verdict.findings[0]
        code, message = (first.code, first.message) if first is not None else ("", "")
        return Decision(runs, verdict.outcome.value, code, message, verdict)

    def screened(
        self,
        objective: Callable[[Any], Any],
        blocked: Callable[[Any, Decision], Any] | None = None,
    ) -> Callable[[Any], Any]:
        """Return the objective behind the gate, for any search that calls one.

        Args:
            objective: What trains.
            blocked: Called instead for a trial that may not run; its result is returned. Without
                it ``planguard.UnsafePlanError`` is raised.
        """
        from planguard.errors import UnsafePlanError

        def behind(trial: Any) -> Any:
            decision = self(trial)
            if decision.runs:
                return objective(trial)
            if blocked is None:
                raise UnsafePlanError(decision.verdict)
            return blocked(trial, decision)

        return behind
