"""What PlanGuard says of a plan, and whether it names the rank and the call that were changed."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import planguard
from dl2.mutate import COLLECTIVE, PAIRED, Mutation, signature

if TYPE_CHECKING:
    from planguard.verdict import Finding, Location, Verdict

RANKS = re.compile(r"\branks? ((?:\d+(?:-\d+)?(?:, | and )?)+)")


def judged(document: dict[str, Any], model: str = "gloo") -> tuple[Verdict, float]:
    """Return the verdict on a plan and the milliseconds from the decoded file to the verdict."""
    started = time.perf_counter()
    verdict = planguard.check(planguard.load(document), model=model)
    return verdict, (time.perf_counter() - started) * 1e3


def events(document: dict[str, Any]) -> int:
    """Return the number of communications and waits of all ranks."""
    counted = {*COLLECTIVE, *PAIRED, "wait"}
    return sum(a["op"] in counted for body in document["ranks"].values() for a in body["actions"])


def named(
    verdict: Verdict, mutation: Mutation, before: dict[str, Any], after: dict[str, Any]
) -> dict[str, Any]:
    """Say whether the findings name the change.

    Returns:
        ``rank``: the first error names the changed rank. ``ranks``: how many ranks it names.
        ``action``: some error shows the changed action, or its neighbor where it is gone.
        ``call``: some error shows a call like it (operation, group, size).
    """
    errors = verdict.errors
    if not errors:
        return {"rank": False, "ranks": 0, "action": False, "call": False}
    first = _ranks(errors[0])
    shown = [(place.rank, place.action) for error in errors for place in _places(error)]
    near = {mutation.action - 1, mutation.action, mutation.action + 1}
    old = before["ranks"][str(mutation.rank)]["actions"]
    new = after["ranks"][str(mutation.rank)]["actions"]
    meant = {signature(old[mutation.action])[:5], *_at(new, mutation.action)}
    met = {one for rank, at in shown for one in _at(after["ranks"][str(rank)]["actions"], at)}
    return {
        "rank": mutation.rank in first,
        "ranks": len(first),
        "action": any(rank == mutation.rank and at in near for rank, at in shown),
        "call": bool(meant & met),
    }


def _at(program: list[dict[str, Any]], at: int) -> set[tuple[Any, ...]]:
    return {signature(program[at])[:5]} if 0 <= at < len(program) else set()


def _places(finding: Finding) -> list[Location]:
    found = [finding.primary, *finding.related_actions]
    for edge in finding.cycle:
        found += [edge.at, edge.waits_for, edge.behind]
    return [place for place in found if place is not None]


def _ranks(finding: Finding) -> set[int]:
    """Return the ranks that a finding names, in words or by place."""
    said = {place.rank for place in _places(finding)} | set(finding.ranks)
    for text in (finding.message, *finding.notes):
        for many in RANKS.findall(text):
            for one in re.findall(r"\d+(?:-\d+)?", many):
                low, _, high = one.partition("-")
                said |= set(range(int(low), int(high or low) + 1))
    return said
