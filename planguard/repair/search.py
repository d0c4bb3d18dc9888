"""The smallest change that makes a plan safe: propose, check again, learn from what is left.

All single edits are tried, those near the findings first; every candidate is read and decided as a
whole by the engine. Where none helps, edits are combined: the findings of the changed plan say
where the next one has to be (counterexample-guided), best first. A hitting set over the edges of
wait-for cycles would be faster and wrong (ADR 0016).
"""

from __future__ import annotations

import hashlib
import heapq
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from planguard.engine import check_plan
from planguard.errors import PlanError
from planguard.plan.format import read
from planguard.repair.document import PlanText, named
from planguard.repair.patch import apply, replaced
from planguard.repair.proposals import far, near

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan
    from planguard.repair.proposal import Proposal
    from planguard.verdict import Verdict

BUDGET = 5.0
"""Seconds for one search when nobody says."""
SINGLES_SHARE, HOPEFUL_SHARE = 0.5, 0.25
"""Part of the budget after which combinations of edits get their turn; the second one where an edit
near the findings made something better, so that there seem to be several bugs."""
MAX_EDITS = 12
"""Most edits of one repair."""
MAX_WAITING = 4_000
"""Changed plans kept for a further edit."""
OUTCOME_FAMILIES = ("PG0", "PG1", "PG2")
MISSING = frozenset({"PG006", "PG007", "PG009", "PG208", "PG209", "PG210", "PG211"})
"""Codes of a call that somebody never makes; edits are not combined to repair one."""


@dataclass(frozen=True)
class Repaired:
    """What a search came to.

    Attributes:
        changes: The edits that make the plan safe, one after the other; empty if none were found.
        verdict: Verdict on the changed plan.
        tried: Candidates decided.
        all_singles: Every single edit was decided, and none of them makes the plan safe.
        exhausted: No more than one edit was asked for, or no combination is left to try.
        seconds: Time of the search.
    """

    changes: tuple[Proposal, ...] = ()
    verdict: Verdict | None = None
    tried: int = 0
    all_singles: bool = False
    exhausted: bool = False
    seconds: float = 0.0


@dataclass(order=True)
class _Node:
    """A changed plan that is not safe yet, and how much is wrong with it."""

    score: tuple[int, float, int, int]
    text: PlanText = field(compare=False)
    verdict: Verdict = field(compare=False)
    changes: tuple[Proposal, ...] = field(compare=False)
    next: Iterator[Proposal] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class _Safe:
    """A changed plan that is safe; ``flaws`` is empty, or says what is not so good about it."""

    changes: tuple[Proposal, ...]
    verdict: Verdict
    flaws: tuple[int, int] = (0, 0)


class Search:
    """One search.

    Args:
        plan: The plan.
        verdict: Its verdict: unsafe.
        options: The options it was checked with.
        budget: Seconds.
        progress: Called with the number of candidates decided.
        edits: Most edits of a repair.
    """

    def __init__(
        self,
        plan: Plan,
        verdict: Verdict,
        options: CheckOptions,
        budget: float = BUDGET,
        progress: Callable[[int], None] | None = None,
        edits: int = MAX_EDITS,
    ) -> None:
        self._most = edits
        self.start, self.verdict, self.budget = PlanText(plan), verdict, budget
        self.tried, self._started, self._progress = 0, time.perf_counter(), progress
        self._options = replace(options, model=verdict.model, certificate=False)
        self._in_all = options.model == "all"
        self._allowed = _beside(verdict, "error")
        self._usual = _beside(verdict, "warning")
        self._known = {f.code for f in verdict.findings}
        self._waiting: list[_Node] = []
        self._seen: set[bytes] = set()

    def run(self) -> Repaired:
        """Return the repair with the fewest edits that was found."""
        safe, complete = self._single()
        if safe is None and not self.is_missing:
            safe = self._combined()
        if safe is not None and len(safe.changes) > (2 if complete else 1):
            safe = self._thinned(safe)
        seconds = time.perf_counter() - self._started
        if safe is None:
            exhausted = not (self._waiting or self.is_missing)
            return Repaired((), None, self.tried, complete, exhausted, seconds)
        alone = complete and len(safe.changes) > 1
        return Repaired(safe.changes, safe.verdict, self.tried, alone, seconds=seconds)

    @property
    def is_missing(self) -> bool:
        """Whether a call or its partner is missing: repairs keep what there is and add nothing."""
        return any(f.severity == "error" and f.code in MISSING for f in self.verdict.findings)

    def _left(self) -> float:
        return self.budget - (time.perf_counter() - self._started)

    # --- one edit --------------------------------------------------------------------------------

    def _single(self) -> tuple[_Safe | None, bool]:
        """Try every single edit; tell whether all of them were decided."""
        complete, best = True, None
        for tier in (near, far):
            for one in tier(self.start, self.verdict):
                share = HOPEFUL_SHARE if self._is_hopeful else SINGLES_SHARE
                if self._left() < self.budget * (1 - share):
                    return best, False
                verdict = self._try(self.start, (), one)
                if isinstance(verdict, _Safe):
                    best = min((verdict, best), key=_flaws) if best else verdict
                    if best.flaws == (0, 0):
                        return best, False
                elif verdict is not None and verdict.unknown:
                    complete = False
            if best is not None:
                return best, False
        return None, complete

    def _try(
        self, text: PlanText, changes: tuple[Proposal, ...], one: Proposal
    ) -> _Safe | Verdict | None:
        """Decide a plan with one more edit; None if it is no plan, or was decided before."""
        try:
            changed = apply(text.document, one.edits)
            plan = read(changed, limits=self.start.plan.limits)
            digest = hashlib.sha256(plan.source).digest()
            if digest in self._seen:
                return None
            self._seen.add(digest)
            verdict = check_plan(plan, self._within())
        except PlanError:
            return None
        self.tried += 1
        if self._progress is not None:
            self._progress(self.tried)
        changes = (*changes, one)
        if verdict.safe:
            return self._judged(plan, verdict, changes)
        if verdict.unsafe and len(self._waiting) < MAX_WAITING and len(changes) < self._most:
            score = (*self._badness(verdict), len(changes), self.tried)
            heapq.heappush(self._waiting, _Node(score, PlanText(plan, changed), verdict, changes))
        return verdict

    def _within(self) -> CheckOptions:
        """The options of the check, within what is left of the budget."""
        left = max(self._left(), 0.05)
        asked = self._options.budget
        return replace(self._options, budget=left if asked is None else min(left, asked))

    def _judged(self, plan: Plan, verdict: Verdict, changes: tuple[Proposal, ...]) -> _Safe | None:
        """Return a safe plan with what is not so good about it; None where it races on a buffer."""
        if not _beside(verdict, "error") <= self._allowed:
            return None
        worse = 0
        if self._in_all:
            verdict = check_plan(plan, replace(self._within(), model="all"))
            worse = sum(outcome.severity > 0 for outcome in verdict.models.values())
        news = len(_beside(verdict, "warning") - self._usual)
        return _Safe(changes, verdict, (worse, news))

    # --- several edits ---------------------------------------------------------------------------

    @property
    def _is_hopeful(self) -> bool:
        return bool(self._waiting) and self._waiting[0].score[:2] < self._badness(self.verdict)

    def _badness(self, verdict: Verdict) -> tuple[int, float]:
        """Return how much is wrong, and how early: where the next of two bugs shows, one is gone.

        A match that disagrees now and did not before is worse than what it took the place of.
        """
        errors = [f for f in verdict.findings if f.severity == "error"]
        news = {f.code for f in errors if f.code.startswith("PG2")} - self._known
        wrong = sum(1 + len(f.equivalent) for f in errors) + 2 * len(news)
        places = [at.action for f in errors for at in named(f)]
        return wrong, -sum(places) / max(1, len(places))

    def _combined(self) -> _Safe | None:
        """Change the most promising plan further until one is safe or the time is over."""
        while self._waiting and self._left() > 0:
            node = heapq.heappop(self._waiting)
            if node.next is None:
                node.next = near(node.text, node.verdict)
            for one in node.next:
                verdict = self._try(node.text, node.changes, one)
                if isinstance(verdict, _Safe):
                    return verdict
                if self._left() <= 0:
                    return None
                if self._waiting and self._waiting[0].score[:2] < node.score[:2]:
                    heapq.heappush(self._waiting, node)  # a better one first, the rest later
                    break
        return None

    def _thinned(self, safe: _Safe) -> _Safe:
        """Leave out every edit without which the plan is safe as well.

        An edit was made for the plan that those before it left. Without one of them it must still
        find what it found, or it would be another edit.
        """
        for one in safe.changes:
            rest = tuple(other for other in safe.changes if other is not one)
            try:
                plan = self._again(safe.changes, rest)
                verdict = None if plan is None else check_plan(plan, self._within())
            except PlanError:
                continue  # the later edits need this one
            if plan is None or verdict is None or not verdict.safe:
                continue
            found = self._judged(plan, verdict, rest)
            if found is not None and found.flaws <= safe.flaws:
                safe = found
        return safe

    def _again(self, changes: tuple[Proposal, ...], rest: tuple[Proposal, ...]) -> Plan | None:
        """Return the plan that some of the changes make; None if they are other changes then."""
        usual = self._found(changes)
        seen = self._found(rest)
        if not rest or any(seen[id(other)] != usual[id(other)] for other in rest):
            return None
        changed, plan = self.start.document, self.start.plan
        for other in rest:
            # Every step has to be a plan: the words of the next one name its actions.
            changed = apply(changed, other.edits)
            plan = read(changed, limits=self.start.plan.limits)
        return plan

    def _found(self, changes: tuple[Proposal, ...]) -> dict[int, list[object]]:
        """Return what each change finds at the places of its edits."""
        document, found = self.start.document, {}
        for change in changes:
            found[id(change)] = replaced(document, change.edits)
            document = apply(document, change.edits)
        return found


def _flaws(safe: _Safe) -> tuple[int, int]:
    return safe.flaws


def _beside(verdict: Verdict, severity: str) -> frozenset[str]:
    """Return the codes of a severity that do not decide the outcome: races, missing waits."""
    return frozenset(
        f.code
        for f in verdict.findings
        if f.severity == severity and not f.code.startswith(OUTCOME_FAMILIES)
    )
