"""``planguard report STORE``: an overview of the trials of a screening."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from planguard.plan.plan import Plan
    from planguard.screen.rows import Row
    from planguard.screen.store import Store
    from planguard.screen.summary import Family, Summary
    from planguard.verdict import Verdict

DECIDED = 40
"""Families whose first trial is decided again for its witness; the most frequent unsafe ones."""
BUDGET = 5.0
"""Seconds for the parts of such a check that are not linear."""


def store_page(store: Store, args: argparse.Namespace) -> bytes:
    """Return the page of a store.

    Trials are named in the store; only plan files whose content has the hash of the row are opened.
    """
    from planguard.report.page.screened import ROWS, Screened, screened_page
    from planguard.screen.summary import summarize

    summary, rows, question = summarize(store), store.some(ROWS), store.question
    number = {family.skeleton.digest: family.number for family in summary.families}
    folder = None if args.output is None else args.output.resolve().parent
    names = list(store.params())
    found = Screened(
        Path(args.input).name,
        str(question),
        [_family(family) for family in summary.families],
        [(c.code, c.trials, str(c.rule)) for c in summary.culprits if c.rule is not None],
        [_trial(row, number, names, folder) for row in rows],
        names,
        _decided(summary, store, question.model),
        question.rows,
        sum(summary.skeletons.values()),
    )
    return screened_page(found).data


def _family(family: Family) -> tuple[Any, ...]:
    one = family.skeleton
    told = (one.outcome, one.code, family.trials, one.first, one.message)
    return (family.number, *told, one.ranks, one.actions)


def _trial(
    row: Row, number: dict[str, int], names: Sequence[str], folder: Path | None
) -> tuple[Any, ...]:
    values = [row.params.get(name) for name in names]
    link = _link(row, folder)
    return (row.name, row.outcome, row.code, number.get(row.skeleton, 0), row.reason, values, link)


def _link(row: Row, folder: Path | None) -> str:
    """Return where the plan file of a trial is, as seen from the page; "" for other trials."""
    from planguard.screen.found import PLAN_SUFFIXES

    path = Path(row.name)
    if folder is None or not row.name.endswith(PLAN_SUFFIXES) or not path.is_file():
        return ""
    relative = os.path.relpath(path.resolve(), folder)
    return "./" + quote(relative.replace(os.sep, "/"))


def _decided(summary: Summary, store: Store, model: str | None) -> dict[int, tuple[Verdict, Plan]]:
    """Decide the first trial of every unsafe family again: a store keeps no witness."""
    from planguard import api
    from planguard.errors import PlanGuardError
    from planguard.options import MODEL_NAMES

    found: dict[int, tuple[Verdict, Plan]] = {}
    unsafe = [f for f in summary.families if f.skeleton.outcome not in {"SAFE", "UNKNOWN"}]
    unsafe = unsafe[:DECIDED]
    by_name = store.known([family.skeleton.first for family in unsafe])
    for family in unsafe:
        row = by_name.get(family.skeleton.first)
        data = None if row is None else _content(row)
        if data is None:
            continue
        chosen = model if model in MODEL_NAMES else None
        try:
            plan = api.load(data)
            verdict = api.check(plan, model=chosen, budget=BUDGET, fix=True)
        except PlanGuardError:
            continue
        if verdict.outcome.value == family.skeleton.outcome:
            found[family.number] = verdict, plan
    return found


def _content(row: Row) -> bytes | None:
    """Return the plan file of a trial, if it is there and is the one that was screened."""
    import hashlib

    from planguard.screen.found import LINE_SUFFIXES, PLAN_SUFFIXES
    from planguard.screen.trials import Trials

    path, _, line = row.name.rpartition(":")
    if row.name.endswith(PLAN_SUFFIXES) and Path(row.name).is_file():
        data = Path(row.name).read_bytes()
        return data if hashlib.sha256(data).hexdigest() == row.input_sha else None
    if path.endswith(LINE_SUFFIXES) and line.isdecimal() and Path(path).is_file():
        one = next((trial for trial in Trials(path) if trial.name == row.name), None)
        if one is not None and one.sha == row.input_sha:
            return one.data
    return None
