"""``planguard report A B``: two plans beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.errors import UsageError, shorten

if TYPE_CHECKING:
    import argparse

    from planguard.plan.plan import Plan
    from planguard.report.page.beside import Side

BUDGET = 5.0
"""Seconds for the parts of each check that are not linear."""


def two(args: argparse.Namespace, chosen: str) -> bytes:
    """Return the comparison of two plans, as text or as a page.

    Raises:
        UsageError: Another format was asked for, or one of the two is no plan.
        PlanError: One of them cannot be read.
    """
    from planguard.report.page.beside import beside, beside_page
    from planguard.report.pictures.beside_text import beside_text

    if chosen not in {"html", "text"}:
        raise UsageError(f"two plans have no {chosen} picture", hint="-o both.html")
    paths = (args.input, *args.others)
    if paths == ("-", "-"):
        raise UsageError("both plans are `-`", hint="pipe one in and name the file of the other")
    plans = [_plan(path, args) for path in paths]
    names = [plan.name or path.rsplit("/", 1)[-1]
             for plan, path in zip(plans, paths, strict=True)]  # fmt: skip
    if names[0] == names[1]:
        names = [*paths]
    sides = [_side(plan, name, args) for plan, name in zip(plans, names, strict=True)]
    found = beside(sides[0], sides[1])
    return beside_text(found).encode() if chosen == "text" else beside_page(found).data


def _plan(path: str, args: argparse.Namespace) -> Plan:
    from planguard.cli.adapters import load_plan
    from planguard.cli.report_inputs import is_store

    if is_store(path):
        raise UsageError(f"{shorten(path)} is a result store and no plan", hint="name two plans")
    return load_plan(path, args)


def _side(plan: Plan, name: str, args: argparse.Namespace) -> Side:
    from planguard import api
    from planguard.options import CheckOptions
    from planguard.report.page.beside import side

    options = CheckOptions(budget=BUDGET)
    if args.model is not None:
        options = CheckOptions(budget=BUDGET, model=args.model)
    return side(plan, api.check(plan, options=options), name, args.model, args.algorithm)
