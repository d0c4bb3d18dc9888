"""What a screening found, as data and as lines: outcomes, skeletons, and parameters that tell."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.errors import shorten
from planguard.screen.correlate import Rule, find_rule
from planguard.screen.rows import OUTCOMES
from planguard.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planguard.screen.rows import Row, Skeleton
    from planguard.screen.store import Store

SAMPLE = 50_000
"""Trials of a code, and others, that a rule is looked for in; it is counted on all."""
CAUSES = 4
"""Most rules of one code."""
MOST_FAMILIES = 10_000
"""Skeletons that a summary holds; the most frequent unsafe ones first."""
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
    """A code, the trials that have it, and the parameters that tell them from the others.

    Attributes:
        code: The code.
        trials: Unsafe trials that it decides.
        rule: What tells them, or None.
        more: Rules of those that the rules before do not hold for.
    """

    code: str
    trials: int
    rule: Rule | None
    more: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class Summary:
    """What a screening found.

    Attributes:
        trials: Trials by outcome.
        skeletons: Distinct skeletons by outcome.
        codes: Trials by outcome and deciding code.
        families: Skeletons with counts, ``MOST_FAMILIES`` of them at most.
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
    seen = _Seen()
    for row in store.rows():
        seen.add(row)
    families = tuple(
        Family(number, skeleton, trials)
        for number, (skeleton, trials) in enumerate(store.families(MOST_FAMILIES), 1)
    )
    return Summary(
        trials=dict(seen.outcomes),
        skeletons=store.kinds(),
        codes={outcome: _sorted(counts) for outcome, counts in seen.codes.items()},
        families=families,
        culprits=_culprits(seen, store),
        refused=seen.ends["refused"],
        crashed=seen.ends["crashed"],
    )


class _Seen:
    """What one walk over the rows counts, and a sample of them for the correlation.

    Memory does not grow with the rows: of each code ``SAMPLE`` failing trials are kept, and as many
    of all others, every one with equal chance (algorithm R, from a fixed seed).
    """

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.codes: dict[str, Counter[str]] = {}
        self.failing: dict[str, _Sample] = {}
        self.decided = _Sample()

    def add(self, row: Row) -> None:
        """Count a row."""
        self.outcomes[row.outcome] += 1
        self.ends[row.end] += 1
        self.codes.setdefault(row.outcome, Counter())[row.code] += 1
        if row.outcome == "UNKNOWN":
            return
        self.decided.add((row.codes, row.params))
        if row.is_unsafe and row.code:
            self.failing.setdefault(row.code, _Sample()).add((row.codes, row.params))


class _Sample:
    """As many of what is added as ``SAMPLE`` says, each with equal chance."""

    def __init__(self) -> None:
        self.kept: list[tuple[tuple[str, ...], Mapping[str, Any]]] = []
        self.seen = 0
        self._dice = random.Random(0)  # noqa: S311  a sample, no secret

    def add(self, item: tuple[tuple[str, ...], Mapping[str, Any]]) -> None:
        """Keep an item, or not."""
        self.seen += 1
        if len(self.kept) < SAMPLE:
            self.kept.append(item)
        elif (place := self._dice.randrange(self.seen)) < SAMPLE:
            self.kept[place] = item


def _culprits(seen: _Seen, store: Store) -> tuple[Culprit, ...]:
    """Correlate every code of the unsafe trials with the parameters.

    What a rule does not cover is asked again, so that two causes of one code are two rules. Where
    the rules come from samples, they are counted on all rows before they are told.
    """
    counts = Counter({code: sample.seen for code, sample in seen.failing.items()})
    found: dict[str, list[Rule]] = {}
    for code in _sorted(counts):
        failing = [params for _, params in seen.failing[code].kept]
        others = [params for codes, params in seen.decided.kept if code not in codes]
        found[code] = list(_rules(failing, others))
    if seen.decided.seen > SAMPLE:
        found = _recounted(found, store)
    return tuple(
        Culprit(code, n, found[code][0] if found[code] else None, tuple(found[code][1:]))
        for code, n in _sorted(counts).items()
    )


def _rules(failing: list[Mapping[str, Any]], others: list[Mapping[str, Any]]) -> Iterator[Rule]:
    for _ in range(CAUSES):
        rule = find_rule(failing, others)
        if rule is None:
            return
        yield rule
        failing = [p for p in failing if not all(c.holds(p) for c in rule.conditions)]
        if not failing:
            return


def _recounted(found: dict[str, list[Rule]], store: Store) -> dict[str, list[Rule]]:
    """Return rules with their numbers over all rows; of several, over what is left for each."""
    tallies = {(code, at): [0, 0, 0] for code, rules in found.items() for at in range(len(rules))}
    for row in store.rows():
        if row.outcome == "UNKNOWN":
            continue
        for code, rules in found.items():
            is_failing = row.is_unsafe and row.code == code
            if not is_failing and code in row.codes:
                continue
            for at, rule in enumerate(rules):
                tally, covered = (
                    tallies[code, at],
                    all(c.holds(row.params) for c in rule.conditions),
                )
                tally[0] += covered and is_failing
                tally[1] += is_failing
                tally[2] += covered and not is_failing
                if is_failing and covered:
                    break  # the rules after it are of what is left
    return {
        code: [replace(rule, covered=tallies[code, at][0], failing=tallies[code, at][1],
                       others=tallies[code, at][2]) for at, rule in enumerate(rules)]
        for code, rules in found.items()
    }  # fmt: skip


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
    kinds = sum(n for outcome, n in summary.skeletons.items() if outcome != "SAFE")
    if kinds > MAX_SKELETONS:
        lines.append(f" {'':>16}  and {kinds - MAX_SKELETONS:,} more that are not SAFE")
    lines += [""] if summary.culprits else []
    decided = summary.total - summary.trials.get("UNKNOWN", 0)
    for culprit in summary.culprits:
        several = plural(culprit.trials, "trial")
        if culprit.rule is None:
            why = (
                "all that were decided, so there is none to tell them from"
                if culprit.trials == decided
                else "no parameter tells them from the others"
            )
            lines.append(f" {culprit.code} in {several}: {why}")
            continue
        lines.append(f" {culprit.code} in {several}: {shorten(str(culprit.rule), 200)}")
        lines += [
            f" {culprit.code} in {rule.failing:,} of the rest: {shorten(str(rule), 180)}"
            for rule in culprit.more
        ]
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
                "more": [_rule(rule) for rule in culprit.more],
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
