"""The page of a result store: what many trials came to, and the witness of a chosen one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.report.page import CAP, Page
from planguard.report.page.columns import Columns
from planguard.report.page.html import STORE_SCRIPTS, assemble
from planguard.report.page.said import said
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict

ROWS = 50_000
"""Most trials on the page."""


@dataclass(frozen=True)
class Screened:
    """What the page of a store shows, as plain data.

    Attributes:
        title: Name of the store.
        question: Model, planner and version that the trials were asked under.
        families: Trials that communicate alike: number, outcome, code, trials, first, message,
            ranks, actions; the most frequent unsafe ones first.
        rules: What the parameters tell: code, trials, sentence.
        trials: Name, outcome, code, number of the family or 0, reason, parameters, link.
        params: Names of the parameters.
        decided: Verdict and plan of the first trial of a family, by number.
        total: Trials in the store.
        kinds: Skeletons in the store.
    """

    title: str
    question: str
    families: Sequence[tuple[Any, ...]]
    rules: Sequence[tuple[str, int, str]]
    trials: Sequence[tuple[Any, ...]]
    params: Sequence[str]
    decided: Mapping[int, tuple[Verdict, Plan]]
    total: int
    kinds: int


def screened_page(found: Screened) -> Page:
    """Draw a store as one HTML file; equal stores give equal bytes.

    Args:
        found: What it holds. Trials that do not fit into 5 MB are left out, and the page says so.
    """
    count = min(ROWS, len(found.trials))
    while True:
        data = assemble(_packed(found, count), STORE_SCRIPTS)
        if len(data) <= CAP or not count:
            return Page(data)
        count //= 2


def _packed(found: Screened, count: int) -> str:
    from planguard import __version__

    head = {
        "store": True,
        "title": clean(found.title),
        "version": __version__,
        "question": clean(found.question),
        "total": found.total,
        "kinds": found.kinds,
        "families": [[_cell(value) for value in family] for family in found.families],
        "rules": [[_cell(value) for value in rule] for rule in found.rules],
        "params": [clean(name) for name in found.params],
        "trials": [[_cell(value) for value in trial] for trial in _chosen(found.trials, count)],
        "said": {str(number): said(verdict, plan)
                 for number, (verdict, plan) in sorted(found.decided.items())},
    }  # fmt: skip
    return Columns().packed(head)


def _chosen(trials: Sequence[tuple[Any, ...]], count: int) -> list[tuple[Any, ...]]:
    """Return so many trials, in their order; where some are left out, SAFE ones are."""
    told = ("UNKNOWN", "SAFE")  # after the unsafe ones
    ranked = sorted(trials, key=lambda trial: told.index(trial[1]) + 1 if trial[1] in told else 0)
    kept = {trial[0] for trial in ranked[:count]}
    return [trial for trial in trials if trial[0] in kept]


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):
        return [_cell(one) for one in value]
    return value
