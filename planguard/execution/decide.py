"""A fixed order decided exactly: the lenient and the strict end of a model's executions.

SAFE iff the strict end completes and no match disagrees; DEADLOCK iff the lenient end is stuck for
a reason of its own; POTENTIAL_DEADLOCK in between (PLAN_FORMAT, "What the operations mean";
"Why one run is exact" in docs/explanation/blocking-and-matching.md).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from planguard.errors import InternalError
from planguard.execution.findings.attribution import Attribution
from planguard.execution.findings.classify import Cause, explain_cycle, explain_orphan
from planguard.execution.findings.mismatch import (
    blocking_rounds,
    candidates,
    explain_mismatch,
    find_mismatches,
)
from planguard.execution.findings.stuck import Cycle, Orphan, StuckState
from planguard.execution.running.executor import Execution, execute
from planguard.semantics.model import ExecutionModel, Scenario, lenient, strict
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from planguard.execution.findings.stuck import Place
    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan


@dataclass(frozen=True)
class Decision:
    """What the two ends of a model say of a fixed order.

    Attributes:
        outcome: The outcome.
        causes: Root causes, mismatches first.
        execution: The run that shows the causes (the strict one when the plan is safe).
        runs: How many runs were made.
        potential: The stuck causes hold only at the strict end.
        implied: Codes of stuck states that a mismatch explains.
    """

    outcome: Outcome
    execution: Execution
    causes: tuple[Cause, ...] = ()
    runs: int = 1
    potential: bool = False
    implied: tuple[str, ...] = ()


@dataclass
class Decider:
    """Decides one plan under one model; runs are made on demand."""

    plan: Plan
    columns: Any
    model: ExecutionModel
    options: CheckOptions
    implementation: Any = None
    runs: int = field(default=0)

    def run(
        self, scenario: Scenario, *, origins: bool = False, forced: array[int] | None = None
    ) -> Execution:
        """Make one run."""
        self.runs += 1
        return execute(
            self.plan,
            self.columns,
            self.model,
            scenario,
            origins=origins,
            forced=array("I") if forced is None else forced,
            implementation=self.implementation,
        )

    def decide(self, *, origins: bool = False, outline: bool = False) -> Decision:
        """Return the decision; with ``origins`` for what reads the lanes of a safe one.

        With ``outline`` it has causes only where stuck states and mismatches stand side by side
        in the lenient run, so that one may excuse the other. Each stuck state has a cause.
        """
        first = self.run(strict(self.model), origins=origins)
        suspects = candidates(first)
        if first.completes and not suspects:
            return Decision(Outcome.SAFE, first, runs=self.runs)
        weak = lenient(self.model, self.options.eager_bytes)
        strong = strict(self.model)
        if outline and not suspects:
            at_best = first if weak == strong else self.run(weak)
            stuck = Outcome.POTENTIAL_DEADLOCK if at_best.completes else Outcome.DEADLOCK
            return Decision(stuck, at_best, runs=self.runs, potential=at_best.completes)
        at_best = self.run(weak, origins=True)
        if outline and at_best.completes and find_mismatches(at_best, suspects):
            return Decision(Outcome.MISMATCH, at_best, runs=self.runs)
        causes = [explain_mismatch(at_best, m) for m in find_mismatches(at_best, suspects)]
        if at_best.completes:
            return self._between(strong, at_best, causes, suspects)
        return self._stuck(at_best, causes, suspects)

    def _stuck(
        self, execution: Execution, mismatches: list[Cause], suspects: list[int]
    ) -> Decision:
        """The lenient end is stuck: a cause of its own, or only what a mismatch implies?"""
        own, implied = self._own_causes(execution, mismatches, suspects)
        if own:
            return Decision(
                Outcome.DEADLOCK, execution, (*mismatches, *own), self.runs, implied=implied
            )
        return Decision(Outcome.MISMATCH, execution, tuple(mismatches), self.runs, implied=implied)

    def _between(
        self, scenario: Scenario, best: Execution, mismatches: list[Cause], suspects: list[int]
    ) -> Decision:
        """The lenient end completes; the strict end may still get stuck."""
        worst = self.run(scenario, origins=True)
        own: list[Cause] = []
        implied: tuple[str, ...] = ()
        if not worst.completes:
            if not mismatches:
                mismatches = [explain_mismatch(worst, m) for m in find_mismatches(worst, suspects)]
            own, implied = self._own_causes(worst, mismatches, suspects)
        own = [
            replace(cause, finding=replace(cause.finding, certainty="some-execution"))
            for cause in own
        ]
        shown = best if worst.completes else worst
        if mismatches:
            return Decision(
                Outcome.MISMATCH, shown, (*mismatches, *own), self.runs, bool(own), implied
            )
        outcome = Outcome.POTENTIAL_DEADLOCK if own else Outcome.SAFE
        return Decision(outcome, shown, tuple(own), self.runs, bool(own), implied)

    def _own_causes(
        self, execution: Execution, mismatches: list[Cause], suspects: list[int]
    ) -> tuple[list[Cause], tuple[str, ...]]:
        """Return the causes that remain when mismatched rounds complete as if they agreed."""
        causes = stuck_causes(execution)
        if not mismatches:
            return causes, ()
        forced = blocking_rounds(execution, suspects)
        again = execution
        if forced:
            again = self.run(execution.scenario, origins=True, forced=forced)
        formed = find_mismatches(again, suspects)
        numbers = [n for cause in mismatches for n in cause.matches]
        numbers += [mismatch.match.number for mismatch in formed]
        own = [] if again.completes else _not_excused(again, numbers)
        kept = {cause.finding.code for cause in own}
        return own, tuple(sorted({cause.finding.code for cause in causes} - kept))


def stuck_causes(execution: Execution) -> list[Cause]:
    """Return the root causes of a stuck execution: cycles first, then orphans.

    Causes that are the same bug on other ranks are explained once; ``Finding.equivalent`` names
    the others.

    Raises:
        InternalError: If nothing explains the stuck state; no verdict is given then.
    """
    state = StuckState(execution)
    causes = []
    for cycle, others in _first_of_each(
        execution, state.cycles(), lambda c: [s.at for s in c.steps]
    ):
        cause = explain_cycle(execution, cycle)
        stands = tuple(step.at for step in cycle.steps)
        causes.append(_equivalent(replace(cause, stands=stands), others))
    for orphan, others in _first_of_each(execution, state.orphans(), lambda o: o.waiting):
        causes.append(_equivalent(explain_orphan(execution, orphan), others))
    if not causes:
        raise InternalError(
            "an execution is stuck without a cycle and without an orphan",
            hint="please report the plan: no verdict is given",
        )
    return [replace(cause, execution=execution) for cause in causes]


Reason = TypeVar("Reason", Cycle, Orphan)


def _first_of_each(
    execution: Execution,
    reasons: list[Reason],
    places: Callable[[Reason], Iterable[Place]],
) -> list[tuple[Reason, list[tuple[int, ...]]]]:
    """Return the first reason of every shape with the ranks of the others."""
    programs = execution.plan.code.rank_program
    found: dict[tuple[tuple[int, int], ...], tuple[Reason, list[tuple[int, ...]]]] = {}
    for reason in reasons:
        at = list(places(reason))
        shape = tuple(sorted({(programs[place.rank], place.entry) for place in at}))
        if shape in found:
            found[shape][1].append(tuple(sorted({place.rank for place in at})))
        else:
            found[shape] = (reason, [])
    return list(found.values())


def _equivalent(cause: Cause, others: list[tuple[int, ...]]) -> Cause:
    return replace(cause, finding=replace(cause.finding, equivalent=tuple(others)))


def _not_excused(execution: Execution, mismatched: list[int]) -> list[Cause]:
    """Return the causes that no mismatch explains."""
    found = Attribution(execution, mismatched)
    own = [cause for cause in stuck_causes(execution) if found.own_matches & set(cause.matches)]
    shown = {match for cause in own for match in cause.matches}
    for one in found.own_in_flight:
        orphan = found.orphan(one)
        if orphan.match.number not in shown:
            shown.add(orphan.match.number)
            own.append(replace(explain_orphan(execution, orphan), execution=execution))
    if found.own_lanes and not own:
        return stuck_causes(execution)
    return own
