"""What a screening found, as data and as lines: outcomes, skeletons, and parameters that tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.errors import shorten
from planguard.screen.correlate import Rule, find_rule
from planguard.screen.rows import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.screen.rows import Row, Skeleton
    from planguard.screen.store import Store

MAX_SKELETONS = 12
"""Skeletons listed; the most frequent unsafe ones first."""


@dataclass(frozen=True)
class Family:
    """Trials that communicate alike.

    Attributes:
        number: 1 for the most frequent unsafe one, and so on; SAFE ones come last.
        skeleton: What they have in common.
        trials: How many there are.
    """

    number: int
    skeleton: Skeleton
    trials: int


@dataclass(frozen=True)
class Culprit:
    """A code, the trials that have it, and the parameters that tell them from the others."""

    code: str
    trials: int
    rule: Rule | None


@dataclass(frozen=True)
class Summary:
    """What a screening found.

    Attributes:
        trials: Trials by outcome.
        skeletons: Distinct skeletons by outcome.
        codes: Trials by outcome and deciding code.
        families: Skeletons with counts.
        culprits: Codes of unsafe trials, the most frequent first.
        refused: Trials whose input is no plan.
        crashed: Trials on which the check failed.
    """

    trials: dict[str, int]
    skeletons: dict[str, int]
    codes: dict[str, dict[str, int]]
    families: tuple[Family, ...]
    culprits: tuple[Culprit, ...]
    refused: int
    crashed: int

    @property
    def total(self) -> int:
        """Number of trials."""
        return sum(self.trials.values())

    @property
    def unsafe(self) -> int:
        """Number of trials that must not run."""
        return self.total - self.trials.get("SAFE", 0) - self.trials.get("UNKNOWN", 0)


def summarize(store: Store) -> Summary:
    """Return what the rows of a store say."""
    rows = list(store.rows())
    families = _families(rows, store.skeletons())
    codes: dict[str, Counter[str]] = {}
    for row in rows:
        codes.setdefault(row.outcome, Counter())[row.code] += 1
    return Summary(
        trials=dict(Counter(row.outcome for row in rows)),
        skeletons=dict(Counter(family.skeleton.outcome for family in families)),
        codes={outcome: _sorted(counts) for outcome, counts in codes.items()},
        families=families,
        culprits=_culprits(rows),
        refused=sum(row.end == "refused" for row in rows),
        crashed=sum(row.end == "crashed" for row in rows),
    )


def _families(rows: Sequence[Row], known: dict[str, Skeleton]) -> tuple[Family, ...]:
    counts = Counter(row.skeleton for row in rows if row.skeleton in known)

    def place(digest: str) -> tuple[Any, ...]:
        return known[digest].outcome == "SAFE", -counts[digest], digest

    ordered = sorted(counts, key=place)
    return tuple(
        Family(number, known[digest], counts[digest]) for number, digest in enumerate(ordered, 1)
    )


def _culprits(rows: Sequence[Row]) -> tuple[Culprit, ...]:
    """Correlate every code of the unsafe trials with the parameters."""
    decided = [row for row in rows if row.outcome != "UNKNOWN"]
    counts = Counter(row.code for row in decided if row.is_unsafe and row.code)
    found = []
    for code, trials in _sorted(counts).items():
        failing = [row.params for row in decided if row.is_unsafe and row.code == code]
        others = [row.params for row in decided if code not in row.codes]
        found.append(Culprit(code, trials, find_rule(failing, others)))
    return tuple(found)


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def lines_of(summary: Summary) -> list[str]:
    """Return the tables that ``planguard screen`` prints; plain text, at most 100 columns."""
    lines = [f" {'outcome':<20}{'trials':>8}{'skeletons':>11}   first codes"]
    for outcome in OUTCOMES:
        count = summary.trials.get(outcome, 0)
        if count:
            kinds = summary.skeletons.get(outcome)
            codes = ", ".join(
                f"{code} x{n:,}" for code, n in summary.codes[outcome].items() if code
            )
            shown = f"{kinds:,}" if kinds else "-"
            lines.append(f" {outcome:<20}{count:>8,}{shown:>11}   {codes}".rstrip())
    unsafe = [family for family in summary.families if family.skeleton.outcome != "SAFE"]
    if unsafe:
        lines += ["", f" {'skeleton':>8}{'trials':>8}  outcome, first trial, what it says"]
    for family in unsafe[:MAX_SKELETONS]:
        one = family.skeleton
        lines.append(
            f" {family.number:>8}{family.trials:>8,}  {one.outcome} {shorten(one.first, 50)}"
            f" ({one.ranks:,} ranks, {one.actions:,} actions)"
        )
        lines.append(f" {'':>16}  {one.code}: {shorten(one.message, 74)}")
    if len(unsafe) > MAX_SKELETONS:
        lines.append(f" {'':>16}  and {len(unsafe) - MAX_SKELETONS:,} more that are not SAFE")
    told = [culprit for culprit in summary.culprits if culprit.rule is not None]
    lines += [""] if told else []
    for culprit in told:
        lines.append(
            f" {culprit.code} in {culprit.trials:,} trials: {shorten(str(culprit.rule), 200)}"
        )
    return lines


def to_json(summary: Summary) -> dict[str, Any]:
    """Return the summary as plain data."""
    return {
        "trials": summary.trials,
        "skeletons": [
            {
                "number": family.number,
                "digest": family.skeleton.digest,
                "trials": family.trials,
                "outcome": family.skeleton.outcome,
                "code": family.skeleton.code,
                "message": family.skeleton.message,
                "first": family.skeleton.first,
                "ranks": family.skeleton.ranks,
                "actions": family.skeleton.actions,
            }
            for family in summary.families
        ],
        "codes": [
            {
                "code": culprit.code,
                "trials": culprit.trials,
                "rule": None if culprit.rule is None else _rule(culprit.rule),
            }
            for culprit in summary.culprits
        ],
        "refused": summary.refused,
        "crashed": summary.crashed,
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "conditions": [str(condition) for condition in rule.conditions],
        "exact": rule.is_exact,
        "precision": round(rule.precision, 4),
        "recall": round(rule.recall, 4),
    }
