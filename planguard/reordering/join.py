"""What cases say together: the one join of outcomes over all executions of an open plan.

A case stands for some executions of a plan: one branch assignment, one order, one flush of fused
buffers, one way to match messages, one interleaving of threads. All cases together stand for all
executions. The rule follows from the definitions of the outcomes alone (docs/reference/result.md):

* DEADLOCK says that *every* execution gets stuck, so it needs that of every case.
* MISMATCH says that *some* execution forms a match whose members disagree. It is the answer as
  soon as one case shows such a match and one case, that one or another, is known not to be stuck
  in every execution: that rules out the only more severe outcome, DEADLOCK.
* POTENTIAL_DEADLOCK says that some execution gets stuck and not all do.
* SAFE needs every case to be SAFE.

What is known to go wrong is never dropped because another case is UNKNOWN. The cells, with U for
UNKNOWN, S, P, D, M for the others, ``+`` for a disagreement that a stuck case shows besides:

=================== ==== ====================================================================
cases               join why
=================== ==== ====================================================================
one outcome X       X    every case says so
no U, with M        M    an execution disagrees; not every one is stuck, since M is no D
no U, D+ and S or P M    the same: S and P have executions that are not stuck
no U, P or D left   P    some execution is stuck, and one of S, P is not stuck in all
U with M            M    as without U: what is open could only be D, and M rules that out
U with D+ and S, P  M    the same
U with D, S or P    P    one is stuck, one is not: DEADLOCK is ruled out. The open case could
                         still show a mismatch, so the answer is not complete
U with P            P    the same: a P case holds both
U with D or D+ only P    an execution is stuck for certain; whether all are is open. The answer
                         is not complete, and then P says no more than that some get stuck
U with S only       U    nothing goes wrong in what was decided, and something was not
no case             U    nothing was decided
=================== ==== ====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.catalog import lookup
from planguard.execution.findings.created import MEMBERS_DIFFER
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.verdict import Finding, Verdict

_MATCHES = ("mismatch", "witness", "by-model")
"""Rules of outcome (``catalog.OUTCOME_RULES``) of codes that may say that a match disagrees."""

NAMELESS = frozenset({Outcome.DEADLOCK, Outcome.MISMATCH})
"""What is known without labels: that all executions are stuck, that kinds or sizes disagree.

Calls that swap may meet the wrong ones besides, so the others are left open.
"""


@dataclass(frozen=True)
class Case:
    """What is known of some executions of a plan.

    Attributes:
        outcome: Their outcome.
        mixes: Whether one of them forms a match whose members disagree, stuck or not.
    """

    outcome: Outcome
    mixes: bool = False


def join(cases: Iterable[Case]) -> Outcome:
    """Return the outcome of a plan whose executions are those of all cases."""
    known = list(cases)
    seen = {case.outcome for case in known}
    if not seen:
        return Outcome.UNKNOWN
    if len(seen) == 1:
        return seen.pop()
    sure = seen - {Outcome.UNKNOWN}
    mixes = Outcome.MISMATCH in seen or any(case.mixes for case in known)
    if mixes and sure != {Outcome.DEADLOCK}:
        return Outcome.MISMATCH
    if sure & {Outcome.DEADLOCK, Outcome.POTENTIAL_DEADLOCK}:
        return Outcome.POTENTIAL_DEADLOCK
    return Outcome.UNKNOWN


def case_of(verdict: Verdict) -> Case:
    """Return what a verdict says of the executions it is about."""
    return Case(verdict.outcome, mixes(verdict))


def left_open(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """Return why cases leave something open: each reason of those that are not complete, once.

    A case that is SAFE leaves nothing open of what is joined, whatever it was not told.
    """
    cases = [one for one in verdicts if one.unknown or not (one.complete or one.safe)]
    return tuple(dict.fromkeys(reason for one in cases for reason in one.reasons))


def mixes(verdict: Verdict) -> bool:
    """Tell whether some execution forms a match whose members disagree, stuck or not."""
    return verdict.outcome is Outcome.MISMATCH or any(map(says_disagreement, verdict.errors))


def says_disagreement(finding: Finding) -> bool:
    """Tell whether a finding is about a match whose members disagree.

    A code tells it by its rule in the catalog. The codes of potential defects stand for stuck
    states, too; a stuck state names its sub-kind, cycle or orphan. Groups of different members
    that are one creation are such a match: their ranks meet under one name.
    """
    if finding.severity != "error" or finding.subkind is not None:
        return False
    return MEMBERS_DIFFER in finding.notes or lookup(finding.code).outcome in _MATCHES
