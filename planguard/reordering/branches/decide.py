"""Plans with data-dependent branches: every assignment decided, or stretches one by one.

Few assignments are all decided as plans of their own. Many are cut where all ranks are at a
`choice`: stretches that are safe by themselves are safe one after the other
(docs/explanation/choices.md argues why), and a stretch has few assignments.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError
from planguard.execution.findings.reason import (
    LIMITS,
    Kind,
    Reason,
    UndecidedError,
    construct,
    out_of_time,
)
from planguard.execution.findings.sequence import mixes
from planguard.execution.running.expand import expand
from planguard.options import running
from planguard.reordering.branches.assignments import (
    Assignment,
    UnclearError,
    Variables,
    assigned,
    differences,
    notes_of,
    plain_name,
)
from planguard.reordering.branches.calls import UnfitError
from planguard.reordering.branches.segments import (
    Programs,
    joined,
    restricted,
    stretches,
    variables_in,
)
from planguard.reordering.branches.sites import Open
from planguard.reordering.branches.solver import Branching, OpenError, evidence, incomplete
from planguard.reordering.cases.together import (
    Part,
    combined,
    open_verdict,
    shown_of,
    together,
)
from planguard.reordering.orders.prefix import is_closed
from planguard.verdict import Outcome, SafeIff, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan
    from planguard.reordering.cases.together import Decide
    from planguard.semantics.model import ExecutionModel

CODE = "PG110"
LIMIT = 2_000
"""Most combinations of branches that are all decided where nothing else can decide them."""
FEW = 256
"""Most combinations of branches that are all decided before clauses are asked."""
STRETCHES = 256
"""Most assignments of all stretches that are decided before clauses are asked."""
_NUMBERED = "branches with messages and collectives on one group, whose calls are counted"
WIDTHS = (1, 2, 3, 4)
"""How many neighboring stretches are tried together, fewest first."""


class BrokenError(UndecidedError):
    """A combination of branches is no valid program."""


@dataclass(frozen=True)
class Taken:
    """An assignment and what is known of it."""

    assignment: Assignment
    part: Part


def over_branches(
    plan: Plan, columns: Any, model: ExecutionModel, options: CheckOptions, decide: Decide
) -> Verdict:
    """Decide a plan over all branches that its ranks may take.

    Args:
        plan: A plan with `choice`; ``decide`` takes care of everything else that is open.
        columns: Its columns.
        model: The execution model.
        options: Options; ``budget`` bounds the work in seconds.
        decide: Decides a plan without `choice`.
    """
    search = _Branches(plan, columns, model, options, decide)
    try:
        return search.verdict()
    except UnclearError as unclear:
        return open_verdict(plan, model.name, Reason(Kind.IDENTITY, str(unclear)))
    except UndecidedError as undecided:
        verdict = open_verdict(plan, model.name, undecided.reason)
        return replace(verdict, evidence=replace(verdict.evidence, schedules=search.decided))


class _Branches:
    """One plan and its branch variables."""

    def __init__(
        self,
        plan: Plan,
        columns: Any,
        model: ExecutionModel,
        options: CheckOptions,
        decide: Decide,
    ) -> None:
        self.plan, self.model, self.options = plan, model, options
        self.decide, self.decided = decide, 0
        self.open = Open(plan, columns)
        self.is_numbered = model.counts_messages and mixes(columns, in_blocks=False) is not None
        self.deadline = running(options).deadline

    def verdict(self) -> Verdict:
        """Return the verdict over all assignments.

        Raises:
            UnclearError: Which branches belong together is not known.
            BrokenError: Some assignment is no valid program.
            UndecidedError: There is no time for all assignments, and no shorter proof.
        """
        return self._over(self.open.variables())

    def _over(self, variables: Variables) -> Verdict:
        count = variables.count(LIMIT + 1)
        if count <= FEW or (self.is_numbered and count <= LIMIT):
            return self._every(variables, variables.assignments())
        if self.is_numbered:  # clauses and stretches know nothing of what was called before
            raise UndecidedError(construct(_NUMBERED))
        proved = self._by_few_stretches(variables)
        if proved is not None:
            return proved
        why = Reason(Kind.BRANCHES, "")
        try:
            verdict = self._by_clauses(variables)
            if verdict.complete or count > LIMIT:
                return verdict
        except UnfitError as unfit:
            why = Reason(Kind.BRANCHES, str(unfit))
        except OpenError as reached:
            why = reached.reason
        if count <= LIMIT:
            return self._every(variables, variables.assignments())
        return self._by_stretches(variables, why)

    # --- clauses -----------------------------------------------------------------------------

    def _by_clauses(self, variables: Variables) -> Verdict:
        """Ask the solver for an assignment that is not safe."""
        asking = Branching(
            self.open.flat,
            self.model,
            self.options,
            self._part,
            self.deadline,
            lambda agreed: self._by_few_stretches(agreed) is not None,
        )
        asked = asking.ask(variables)
        verdict = self._together(asked.parts)
        condition = asking.uniform(variables) if verdict.unsafe else ()
        verdict = replace(
            verdict,
            safe_iff=(*verdict.safe_iff, *condition),
            evidence=evidence(asking, self.decided),
        )
        return incomplete(verdict, asked)

    # --- all assignments ---------------------------------------------------------------------

    def _every(self, variables: Variables, assignments: Iterable[Assignment]) -> Verdict:
        taken = [Taken(assignment, self._part(assignment)) for assignment in assignments]
        verdict = self._together([one.part for one in taken])
        condition = self._condition(variables, taken) if verdict.unsafe else ()
        return replace(verdict, safe_iff=(*verdict.safe_iff, *condition))

    def _together(self, parts: list[Part]) -> Verdict:
        shown = shown_of(parts, together(parts))
        full = self.decide(shown.ordered.plan, brief=False)
        return combined(self.plan, parts, full, shown, CODE)

    def _part(self, assignment: Assignment, flat: dict[str, Any] | None = None) -> Part:
        """Decide one assignment, of the plan or of a stretch of it."""
        if self.deadline.expired():
            raise UndecidedError(out_of_time(f" after {self.decided:,} combinations of branches"))
        try:
            taken = self.open.assigned(assignment) if flat is None else assigned(flat, assignment)
        except PlanError as error:
            where = "; ".join(notes_of(assignment))
            message = f"where {where}, the program is not valid: {error.message}"
            raise BrokenError(Reason(Kind.INVALID, message)) from error
        self.decided += 1
        notes, differs = notes_of(assignment), differences(assignment)[0] > 0
        return Part(taken, self.decide(taken.plan, brief=True), notes, differs)

    @staticmethod
    def _condition(variables: Variables, taken: list[Taken]) -> tuple[SafeIff, ...]:
        """Return the names whose branch has to be the same on all ranks, if that is enough."""

        def enough(names: set[str]) -> bool:
            return all(
                one.part.outcome is Outcome.SAFE
                for one in taken
                if not names & _differing(one.assignment)
            )

        names = set(variables.names)
        if not names or not enough(names):
            return ()
        for name in variables.names:
            if enough(names - {name}):
                names.discard(name)
        return _uniform(names)

    # --- stretches ---------------------------------------------------------------------------

    def _by_stretches(self, variables: Variables, why: Reason) -> Verdict:
        """Decide a plan with many assignments stretch by stretch, as clauses do not."""
        pieces = stretches(self.open.flat) or []
        whole = self._part(dict.fromkeys(variables.sizes, 0))
        at = 0
        while at < len(pieces) and whole.outcome is Outcome.SAFE:
            width = next((w for w in WIDTHS if self._is_safe(pieces[at : at + w], variables)), 0)
            if not width:
                return self._unsafe(whole, pieces[at], variables, why)
            at += width
        if not pieces or whole.outcome is not Outcome.SAFE:
            raise UndecidedError(_many(variables, why))
        return self._proved(whole)

    def _by_few_stretches(self, variables: Variables) -> Verdict | None:
        """Return SAFE where every stretch is closed and safe and has few assignments, else None.

        That costs about as much as the plan has stretches, and the clauses many times that: they
        are asked where a stretch is not so.
        """
        pieces = stretches(self.open.flat) or []
        counts = (variables_in(programs, variables).count(STRETCHES + 1) for programs in pieces)
        if not pieces or any(total > STRETCHES for total in itertools.accumulate(counts)):
            return None
        if not all(self._is_safe([programs], variables) for programs in pieces):
            return None
        whole = self._part(dict.fromkeys(variables.sizes, 0))
        return self._proved(whole) if whole.outcome is Outcome.SAFE else None

    def _proved(self, whole: Part) -> Verdict:
        """Return SAFE of a plan whose stretches are safe, with what one assignment shows."""
        verdict = self._together([whole])
        evidence = replace(verdict.evidence, kind="proof", schedules=self.decided)
        return replace(verdict, evidence=evidence)

    def _if_uniform(self, variables: Variables) -> tuple[SafeIff, ...]:
        """Return the names that differ now and need not, if the plan is safe without."""
        if not variables.names:
            return ()
        agreed = Variables({(name, -1): size for (name, _), size in variables.sizes.items()}, ())
        try:
            return _uniform(variables.names) if self._over(agreed).safe else ()
        except UndecidedError:
            return ()

    def _is_safe(self, several: list[Programs], variables: Variables) -> bool:
        """Tell whether a stretch is closed and safe, whatever branches are taken."""
        programs = joined(several)
        inside, flat = variables_in(programs, variables), restricted(self.open.flat, programs)
        if inside.count(LIMIT + 1) > LIMIT:
            return False
        try:
            parts = (self._part(one, flat) for one in inside.assignments())
            return all(_closed_and_safe(part) for part in parts)
        except BrokenError:
            return False  # something begins in another stretch

    def _unsafe(
        self, whole: Part, programs: Programs, variables: Variables, why: Reason
    ) -> Verdict:
        """Look for an unsafe assignment of the whole plan among those of one stretch."""
        inside = variables_in(programs, variables)
        if inside.count(LIMIT + 1) <= LIMIT:
            for assignment in inside.assignments():
                part = self._part({**dict.fromkeys(variables.sizes, 0), **assignment})
                if part.outcome.severity >= Outcome.POTENTIAL_DEADLOCK.severity:
                    verdict = self._together([whole, part])
                    reason = "an unsafe combination of branches is shown; not all were decided"
                    evidence = replace(verdict.evidence, schedules=self.decided)
                    return replace(
                        verdict,
                        complete=False,
                        reasons=(reason,),
                        evidence=evidence,
                        safe_iff=(*verdict.safe_iff, *self._if_uniform(variables)),
                    )
        raise UndecidedError(_many(variables, why))


def _uniform(names: Iterable[str]) -> tuple[SafeIff, ...]:
    plain = sorted({plain_name(name) for name in names})
    return (SafeIff("uniform-branch", branches=tuple(plain)),)


def _closed_and_safe(part: Part) -> bool:
    return part.outcome is Outcome.SAFE and is_closed(expand(part.ordered.plan))


def rounded(count: int) -> str:
    """Return a count by its size: numbers of branches outgrow every float."""
    if count.bit_length() < 1_000:
        return f"{count:.1e}"
    return f"1e+{int((count.bit_length() - 1) * math.log10(2))}"


def _many(variables: Variables, why: Reason) -> Reason:
    """Return that there are too many assignments for every route; a limit met before stays one."""
    count = math.prod(variables.sizes.values())
    return Reason(
        why.kind if why.kind in LIMITS else Kind.BRANCHES,
        f"more than {LIMIT:,} combinations of branches ({rounded(count)}), and the plan does not "
        f"fall into stretches that are safe by themselves; clauses: {why.detail}",
    )


def _differing(assignment: Assignment) -> set[str]:
    """Return the names that take different branches on different ranks."""
    taken: dict[str, set[int]] = {}
    for (name, _), branch in assignment.items():
        taken.setdefault(name, set()).add(branch)
    return {name for name, branches in taken.items() if len(branches) > 1}
