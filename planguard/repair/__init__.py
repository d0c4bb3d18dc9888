"""Changes of a plan that are proved before they are shown (ADR 0016)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planguard.options import CheckOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.plan.plan import Plan
    from planguard.repair.search import Repaired, Search
    from planguard.verdict import Finding, Repair, Verdict


@dataclass(frozen=True)
class Fixed:
    """A verdict with its repair.

    Attributes:
        verdict: The verdict; its deciding finding carries the repair, or says that none was found.
        text: The plan file with the repair applied, not compressed; None without a repair.
        repaired: What the search came to.
    """

    verdict: Verdict
    text: bytes | None
    repaired: Repaired


def fix(
    plan: Plan,
    verdict: Verdict,
    options: CheckOptions | None = None,
    progress: Callable[[int], None] | None = None,
    edits: int | None = None,
) -> Fixed:
    """Search the smallest change of an unsafe plan that makes it safe, and prove it.

    The repair that is returned was read from its own bytes and came out SAFE under ``options``.

    Args:
        plan: The plan.
        verdict: Its verdict under ``options``; a safe or undecided one is returned as it is.
        options: How it was checked; ``budget`` also bounds the search (5 seconds if None).
        progress: Called with the number of changed plans that were decided.
        edits: Most changes of one repair; 12 if None.
    """
    from planguard.repair.search import BUDGET, MAX_EDITS, Repaired, Search

    options = options or CheckOptions()
    deciding = deciding_finding(verdict)
    if deciding is None or not verdict.unsafe:
        return Fixed(verdict, None, Repaired())
    budget = BUDGET if options.budget is None else options.budget
    search = Search(plan, verdict, options, budget, progress, MAX_EDITS if edits is None else edits)
    found = search.run()
    proof = None if not found.changes else _proved(search, found, options)
    if proof is None:
        note = _nothing(found, is_missing=search.is_missing)
        return Fixed(_with(verdict, deciding, note=note), None, replace(found, changes=()))
    repair, text = proof
    return Fixed(_with(verdict, deciding, repair=repair), text, found)


def deciding_finding(verdict: Verdict) -> Finding | None:
    """Return the finding that a repair belongs to: the first error that decides the outcome."""
    from planguard.repair.search import OUTCOME_FAMILIES

    errors = (f for f in verdict.findings if f.severity == "error")
    return next((f for f in errors if f.code.startswith(OUTCOME_FAMILIES)), None)


def _with(
    verdict: Verdict, deciding: Finding, *, repair: Repair | None = None, note: str = ""
) -> Verdict:
    changed = replace(
        deciding,
        fixes=() if repair is None else (repair,),
        notes=(*deciding.notes, note) if note else deciding.notes,
    )
    findings = tuple(changed if f is deciding else f for f in verdict.findings)
    return replace(verdict, findings=findings)


def _proved(search: Search, found: Repaired, options: CheckOptions) -> tuple[Repair, bytes] | None:
    """Apply the edits to the text, read it again and decide it under the options of the check."""
    from planguard.engine import check_plan
    from planguard.plan.format import read
    from planguard.repair.patch import apply_text
    from planguard.repair.sentences import spoken
    from planguard.verdict import Repair

    plan = search.start.plan
    sentence, edits = spoken(search.start, found.changes)
    text = apply_text(plan.text, edits)
    proof = check_plan(read(text, file=plan.file, limits=plan.limits), options)
    if not proof.safe:
        return None
    models = tuple(name for name, outcome in proof.models.items() if outcome.severity == 0)
    kinds = list(dict.fromkeys(change.kind for change in found.changes))
    is_smallest = len(found.changes) == 1 or (len(found.changes) == 2 and found.all_singles)
    is_file = plan.file is not None or plan.planner is None
    repair = Repair(
        kind="+".join(kinds),
        applicability="verified",
        edits=edits if is_file else (),
        text=sentence,
        models=models,
        smallest=is_smallest,
    )
    return repair, text


def _nothing(found: Repaired, *, is_missing: bool) -> str:
    """Say how far the search went; that there is no repair is said only of what was all tried."""
    if not found.all_singles:
        return "no repair was found within the budget"
    none = "no single edit of the kinds that are tried repairs this plan"
    if is_missing:
        return f"{none}: they keep the calls there are, and add none that is missing"
    return none if found.exhausted else f"{none}; no combination was found within the budget"
