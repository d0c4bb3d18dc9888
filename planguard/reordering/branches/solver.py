"""Plans with more combinations of branches than can be decided one by one: asked as clauses.

The clauses (`branches_formula`) read the model at its strict end, so *no stuck state and no calls
that may disagree* is SAFE. Whatever they find instead is an assignment, which is decided as a fixed
plan before it counts: if that is safe, the clauses learn it and go on. What they leave open is
UNKNOWN, with what was decided.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError, construct
from planguard.reordering.branches.assignments import Assignment, Variables, plain_name, resolve
from planguard.reordering.branches.calls import (
    UnfitError,
    check_creations,
    meetings,
    reader_of,
)
from planguard.reordering.branches.formula import Formula
from planguard.reordering.smt import Answer, Limits
from planguard.verdict import Evidence, Outcome, SafeIff
from planguard.words import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.options import CheckOptions, Deadline
    from planguard.reordering.cases.together import Part
    from planguard.semantics.model import ExecutionModel
    from planguard.verdict import Verdict

TRIES = 60
"""Most assignments that the clauses find and that, decided, are not what was asked for."""
SAMPLES = 3
"""Assignments of each kind that are decided first: a proof of SAFE must not contradict them."""
_UNSETTLED = "whether calls that disagree meet in some combination of branches"
NAMES = 40
"""Most names among which a smallest set that has to be uniform is looked for."""


class OpenError(UndecidedError):
    """The solver, or the time, gives out before the question is settled."""


@dataclass(frozen=True)
class Asked:
    """What the clauses settled.

    Attributes:
        parts: Assignments that were decided: the first, and those that show what is wrong.
        complete: Whether the outcome over all assignments follows from them.
        reason: What is open, if it does not.
    """

    parts: list[Part]
    complete: bool = True
    reason: str = ""


class Branching:
    """Asks clauses about one plan and decides what they find.

    Args:
        flat: The annotated flat plan.
        model: The execution model.
        options: Budgets of the solver, and its process.
        decide: Decides one assignment.
        deadline: The end of the budget.
        proves: A shorter proof: whether a plan is safe for all values of some variables. False says
            nothing.

    Raises:
        UnfitError: The clauses do not cover something of the plan or of the options.
    """

    def __init__(
        self,
        flat: dict[str, Any],
        model: ExecutionModel,
        options: CheckOptions,
        decide: Callable[[Assignment], Part],
        deadline: Deadline,
        proves: Callable[[Variables], bool],
    ) -> None:
        if flat.get("fusion"):
            raise UnfitError("fused buffers")
        if model.free_launch and not options.strict_start_order:
            raise UnfitError("kernels that start in any order")
        self.flat, self.model, self.options, self.decide = flat, model, options, decide
        self.deadline, self.ms, self.proves = deadline, 0.0, proves
        self.reader, self.agree = reader_of(flat, model), set[frozenset[Any]]()
        check_creations(flat, self.reader)

    def ask(self, variables: Variables) -> Asked:
        """Return what all assignments say.

        Raises:
            UnfitError: The clauses do not cover something of the plan.
            OpenError: A budget ends before the answer.
            BrokenError: Some assignment is no valid program.
        """
        formula = self._formula(variables)  # before anything is decided: it may not fit
        parts = [self._take(one) for one in _samples(variables)]
        if any(part.outcome is Outcome.UNKNOWN for part in parts):
            raise UnfitError("a combination of branches that is not decided by itself")
        self._check_handles(formula)
        found, settled = self._mixing(variables, parts)
        parts += found
        if all(part.outcome is Outcome.SAFE for part in parts):
            if not settled:
                raise OpenError(construct(f"{_UNSETTLED}, after {TRIES} that were decided"))
            parts += self._stuck(variables)
        return _asked(parts, settled=settled)

    # --- questions ---------------------------------------------------------------------------

    def _solve(self, formula: Formula, question: int, done: str) -> Assignment | None:
        limits = Limits(
            seconds=self.deadline.left(),
            memory_mb=self.options.solver_memory_mb,
            process=self.options.solver_process,
        )
        found = formula.solver.solve(limits, [question])
        self.ms += found.ms
        if found.answer is Answer.UNKNOWN:
            names = plural(len(formula.branch), "branch variable")
            reason = found.reason or construct("the solver gave no answer")
            said = f"{reason.detail}; decided: {done}; open: {names}"
            raise OpenError(replace(reason, detail=said))
        return formula.assignment(found.true) if found.answer is Answer.SAT else None

    def _check_handles(self, formula: Formula) -> None:
        if not formula.broken:
            return
        assignment = self._solve(formula, formula.broken, "one combination of branches")
        if assignment is not None:
            self.decide(assignment)  # which says what is wrong with it
            raise UnfitError("a handle whose use depends on the branch")

    def _take(self, assignment: Assignment) -> Part:
        """Decide an assignment; calls that meet in a safe one agree wherever they meet."""
        part = self.decide(assignment)
        if part.outcome is Outcome.SAFE:
            ranks = self.flat["ranks"].items()
            programs = {int(r): resolve(b["actions"], int(r), assignment) for r, b in ranks}
            self.agree |= meetings(programs, self.reader)
        return part

    def _formula(self, variables: Variables) -> Formula:
        return Formula(self.flat, variables, self.reader, self.agree)

    def _mixing(self, variables: Variables, parts: list[Part]) -> tuple[list[Part], bool]:
        """Look for calls that meet and disagree; tell whether that is settled."""
        found: list[Part] = []
        if any(part.mixes for part in parts):
            return found, True
        formula = self._formula(variables)
        for _ in range(TRIES):
            done = "every handle is used as it should be"
            assignment = self._solve(formula, formula.mixed, done)
            if assignment is None:
                return found, True
            known = len(self.agree)
            found.append(self._take(assignment))
            if found[-1].mixes:
                return found, True
            if len(self.agree) > known:
                formula = self._formula(variables)
            else:
                formula.forbid(assignment)
        return found, False

    def _stuck(self, variables: Variables) -> list[Part]:
        """Look for an assignment that gets stuck, first at the begin of programs.

        Nobody stays at the waits before: with that the next question is a small one.
        """
        formula = self._formula(variables)
        found: list[Part] = []
        for number, stuck in enumerate(formula.stuck):
            done = f"nobody is stuck in the first {number:,} of {len(formula.stuck):,} steps"
            while (assignment := self._solve(formula, stuck, done)) is not None:
                found.append(self._take(assignment))
                if found[-1].outcome is not Outcome.SAFE:
                    return found
                formula.forbid(assignment)
                if len(found) > TRIES:
                    raise UnfitError("a model that makes more progress than the clauses say")
            formula.solver.add(-stuck)
        return found

    # --- answers -----------------------------------------------------------------------------

    def uniform(self, variables: Variables) -> tuple[SafeIff, ...]:
        """Return the names whose branch has to be the same on all ranks, if that is enough.

        No name can be left out, unless the budget ends before that is shown.
        """
        if not variables.names or not self._safe_if(variables, set(variables.names)):
            return ()
        names = set(variables.names)
        for name in variables.names[:NAMES]:
            if not self._matters(variables, name) and self._safe_if(variables, names - {name}):
                names.discard(name)
        return (SafeIff("uniform-branch", branches=tuple(sorted({plain_name(n) for n in names}))),)

    def _matters(self, variables: Variables, name: str) -> bool:
        """Tell whether a plan is unsafe already if one rank takes another branch of one name."""
        own = [key for key in sorted(variables.sizes) if key[0] == name]
        assignment = {**dict.fromkeys(variables.sizes, 0), own[0]: variables.sizes[own[0]] - 1}
        return self._take(assignment).outcome is not Outcome.SAFE

    def _safe_if(self, variables: Variables, names: set[str]) -> bool:
        """Tell whether a plan is safe if some names are uniform."""
        sizes = {
            (name, -1 if name in names else rank): size
            for (name, rank), size in variables.sizes.items()
        }
        agreed = Variables(sizes, tuple(n for n in variables.names if n not in names))
        if self.proves(agreed):
            return True
        first = self._take(dict.fromkeys(sizes, 0))
        if first.outcome is not Outcome.SAFE:
            return False
        try:
            found, settled = self._mixing(agreed, [first])
            safe = settled and all(part.outcome is Outcome.SAFE for part in found)
            return safe and all(p.outcome is Outcome.SAFE for p in self._stuck(agreed))
        except (OpenError, UnfitError):
            return False


def _asked(parts: list[Part], *, settled: bool) -> Asked:
    """Return what some assignments say of all, once it is settled which calls meet."""
    if {part.outcome for part in parts} == {Outcome.DEADLOCK}:
        return Asked(parts, False, "whether some combination of branches completes")
    if settled or any(part.mixes for part in parts):
        return Asked(parts)
    return Asked(parts, False, _UNSETTLED)


def evidence(branching: Branching, decided: int) -> Evidence:
    """Return how it was decided: by clauses, or by assignments and stretches before them."""
    if not branching.ms:
        return Evidence("proof", ("explorer",), "explorer", schedules=decided)
    return Evidence("proof", ("smt",), "smt", schedules=decided, z3_ms=branching.ms)


def incomplete(verdict: Verdict, asked: Asked) -> Verdict:
    """Return the verdict as far as it is known: some assignment is shown, others are open."""
    if asked.complete:
        return verdict
    outcome = verdict.outcome
    if outcome is Outcome.DEADLOCK:  # of those that were decided, not of all
        outcome = Outcome.POTENTIAL_DEADLOCK
    return replace(
        verdict,
        outcome=outcome,
        models={verdict.model: outcome},
        complete=False,
        reasons=(f"an unsafe combination of branches is shown; open: {asked.reason}",),
    )


def _samples(variables: Variables) -> list[Assignment]:
    """Return a few assignments: first and last branches, one change at a time, random ones."""
    keys, sizes = sorted(variables.sizes), variables.sizes
    rng = random.Random(len(keys))  # noqa: S311  samples, no secrets
    changed = rng.sample(keys, min(SAMPLES, len(keys)))
    found = [dict.fromkeys(keys, 0), {key: sizes[key] - 1 for key in keys}]
    found += [{**found[0], key: sizes[key] - 1} for key in changed]
    found += [{key: rng.randrange(sizes[key]) for key in keys} for _ in range(SAMPLES)]
    return found
