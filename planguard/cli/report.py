"""``planguard report``: what a plan moves, when, and why it gets stuck, as pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.cli.adapters import add_adapter_arguments
from planguard.cli.outputs import targets_of
from planguard.errors import UsageError
from planguard.files import STDOUT, refuse_special, write
from planguard.options import MODEL_NAMES
from planguard.simulate.edges import ALGORITHMS

if TYPE_CHECKING:
    import argparse

    from planguard.cli.report_inputs import Subject
    from planguard.plan.plan import Plan

FORMATS = ("html", "text", "svg", "png", "perfetto", "sqlite")
BINARY = frozenset({"png", "perfetto", "sqlite"})
BUDGET = 5.0
"""Seconds for the parts of the page's check that are not linear, and for the search of a repair."""
_BY_SUFFIX = {
    ".html": "html",
    ".htm": "html",
    ".txt": "text",
    ".svg": "svg",
    ".png": "png",
    ".gz": "perfetto",
    ".json": "perfetto",
    ".sqlite": "sqlite",
    ".db": "sqlite",
}

_EPILOG = """\
examples:
  planguard report plan.json -o report.html         one page: findings, timeline, matrices, graph
  planguard report old.json new.json -o both.html   two plans: what differs in time, bytes, order
  planguard report run/ -o report.html              a recorded run, dumps or traces: measured times
  planguard report screen.db -o report.html         the trials of a screening, with their witnesses
  planguard report rank*.pickle -o memory.html      memory snapshots of torch: who has the memory
  planguard report plan.json --format text          matrices, timeline and advice in the terminal
  planguard report plan.json -o matrix.svg          the merged matrix of bytes
  planguard report plan.json -o trace.json.gz       a trace for ui.perfetto.dev ("Open trace file")
  planguard report plan.json -o times.sqlite        the same times as tables, for SQL
  planguard report plan.json -o sends.png --only primitive=send --counts
"""


class Report:
    """Draw a plan: matrices of bytes and messages, a modeled timeline, advice."""

    name = "report"
    help = "Draw a plan, a recorded run or a result store: timelines, matrices, a graph."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.epilog = _EPILOG
        add = parser.add_argument
        add("input", metavar="PLAN", help="plan file or planner output")
        add("others", metavar="PLAN", nargs="*",
            help="a second one: what differs between the two; more memory snapshots")  # fmt: skip
        add_adapter_arguments(parser, "PLAN")
        add("--model", choices=MODEL_NAMES, metavar="NAME", help="execution model of the timeline")
        add(
            "-o", "--output", metavar="FILE", type=Path, help="write FILE; its suffix is the format"
        )
        add("--format", choices=FORMATS, help="what to write; text by default")
        add("--force", action="store_true", help="overwrite FILE")
        add("--algorithm", choices=ALGORITHMS, default="ring", help="how collectives move data")
        add("--only", action="append", default=[], metavar="FIELD=VALUE",
            help="draw this traffic only: family, primitive, group, dtype, phase")  # fmt: skip
        add("--counts", action="store_true", help="draw messages instead of bytes")
        add("--linear", action="store_true", help="linear color scale")
        add("--by-node", action="store_true", help="one row per node")

    def run(self, args: argparse.Namespace) -> int:
        """Draw the plan; 0 whatever its verdict is.

        Raises:
            UsageError: An output that exists, a format that needs a file.
            PlanError: The plan cannot be read.
        """
        for path in (args.input, *args.others):
            refuse_special(path)
        if args.output is not None and str(args.output) == STDOUT:
            args.output = None
        chosen = _format(args)
        _settle(args, chosen)
        output = None
        if args.output is not None:
            read = [name for path in (args.input, *args.others) for name in _read(path)]
            output = targets_of(args, read).claim(args.output, "-o")
        if chosen in BINARY and args.output is None and sys.stdout.isatty():
            raise UsageError(f"{chosen} is binary", hint="name a file with -o")
        data = _drawn(args, chosen)
        if output is None:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
        else:
            write(output, data)
            print(f"wrote {args.output} ({len(data):,} bytes)", file=sys.stderr)
        return 0


def _drawn(args: argparse.Namespace, chosen: str) -> bytes:
    """Return the picture of whatever the inputs are.

    Raises:
        UsageError: More than two plans.
    """
    from planguard.cli.report_inputs import is_store, subject
    from planguard.cli.report_memory import memory, snapshots
    from planguard.cli.report_two import two

    if args.planner is None and not args.option:
        files = snapshots([args.input, *args.others])
        if files:
            return memory(files, chosen, args)
    if len(args.others) > 1:
        given = f"{1 + len(args.others)} plans"
        raise UsageError(f"{given}, and two at most are compared", hint="name two of them")
    if args.others:
        return two(args, chosen)
    if is_store(args.input):
        return _store(args, chosen)
    return render(subject(args.input, args), chosen, args)


def _read(given: str) -> list[str]:
    """Return the input and, of a store, what SQLite keeps beside it."""
    return [given, f"{given}-wal", f"{given}-shm"]


def _settle(args: argparse.Namespace, chosen: str) -> None:
    """Refuse options that the picture would not follow, before anything is drawn."""
    _wanted(args.only)
    given = {"--only": args.only, "--counts": args.counts, "--linear": args.linear}
    idle = [name for name, value in {**given, "--by-node": args.by_node}.items() if value]
    if idle and chosen not in {"svg", "png"}:
        raise UsageError(f"{idle[0]} is of the matrix, not of {chosen}", hint="-o matrix.svg")


def _format(args: argparse.Namespace) -> str:
    if args.format is not None:
        return str(args.format)
    if args.output is None:
        return "text"
    found = _BY_SUFFIX.get(args.output.suffix)
    if found is None:
        hint = f"name one of {', '.join(_BY_SUFFIX)}, or give --format"
        raise UsageError(f"no format has the suffix {args.output.suffix!r}", hint=hint)
    return found


def render(given: Subject, chosen: str, args: argparse.Namespace) -> bytes:
    """Return the picture of a plan or a recording in one format."""
    plan = given.plan
    if chosen == "text":
        from planguard.report.pictures.summary_text import summary
        from planguard.simulate.rules import advise

        advice = advise(plan, run=given.run)
        text = summary(
            plan, algorithm=args.algorithm, model=args.model, advice=advice, run=given.run
        )
        return text.encode()
    if chosen == "html":
        return _page(given, args)
    if chosen in {"perfetto", "sqlite"}:
        from planguard.report.page import SIMULATED
        from planguard.report.pictures.perfetto import perfetto
        from planguard.report.pictures.tables import sqlite
        from planguard.simulate.folded import folded
        from planguard.simulate.schedule import schedule

        run = given.run
        if run is None:
            if plan.actions > SIMULATED and folded(plan) is None:
                raise UsageError(
                    f"{plan.actions:,} actions are too many to simulate",
                    hint=f"at most {SIMULATED:,}, unless representatives can stand for the ranks",
                )
            run = schedule(plan, args.model)
        return perfetto(run) if chosen == "perfetto" else sqlite(run)
    return _matrix(plan, chosen, args)


def _page(given: Subject, args: argparse.Namespace) -> bytes:
    from dataclasses import replace

    from planguard import api, repair
    from planguard.options import CheckOptions
    from planguard.plan.format import read
    from planguard.report.page import page
    from planguard.simulate.rules import advise
    from planguard.simulate.traffic import traffic

    plan, options = given.plan, CheckOptions(budget=BUDGET)
    if args.model is not None:
        options = CheckOptions(budget=BUDGET, model=args.model)
    verdict, repaired = given.verdict, None
    if verdict is None:
        fixed = repair.fix(plan, api.check(plan, options=options), options)
        repaired = None if fixed.text is None else read(fixed.text, limits=plan.limits)
        verdict = fixed.verdict
    moved = traffic(plan)
    advice = advise(plan, run=given.run, moved=moved)
    verdict = replace(verdict, findings=(*verdict.findings, *advice))
    drawn = page(
        plan,
        verdict,
        repaired=repaired,
        model=args.model,
        algorithm=args.algorithm,
        run=given.run,
        moved=moved if args.algorithm == moved.algorithm else None,
    )
    return drawn.data


def _store(args: argparse.Namespace, chosen: str) -> bytes:
    """Return the overview of a result store.

    Raises:
        UsageError: Another format than HTML or text was asked for.
    """
    if chosen not in {"html", "text"}:
        raise UsageError(f"a store has no {chosen} picture", hint="-o report.html")
    from planguard.screen.store import Store
    from planguard.screen.summary import lines_of, summarize

    store = Store(args.input, reading=True)
    others = store.resume(args.model)
    if others:
        print(f"left out of {args.input}: {'; '.join(others)} (--model NAME)", file=sys.stderr)
    if chosen == "text":
        return "\n".join([f" {store.question}", *lines_of(summarize(store)), ""]).encode()
    from planguard.cli.report_store import store_page

    return store_page(store, args)


def _matrix(plan: Plan, chosen: str, args: argparse.Namespace) -> bytes:
    from planguard.report.pictures.matrix_image import matrix_png, matrix_svg
    from planguard.simulate.matrix import LARGEST, by_node, matrix
    from planguard.simulate.traffic import traffic

    wanted = _wanted(args.only)
    title = ", ".join(wanted.values()) or "all traffic"
    moved = traffic(plan, args.algorithm)
    if args.by_node or plan.world_size > LARGEST:
        found = by_node(moved, plan, title=title, **wanted)
    else:
        found = matrix(moved, title=title, **wanted)
    if chosen == "svg":
        return matrix_svg(found, counts=args.counts, log=not args.linear).encode()
    return matrix_png(found, counts=args.counts, log=not args.linear)


def _wanted(given: list[str]) -> dict[str, str]:
    known = ("family", "primitive", "group", "dtype", "phase")
    wanted = {}
    for text in given:
        name, equals, value = text.partition("=")
        if name not in known or not equals:
            raise UsageError(
                f"--only {text!r} is no FIELD=VALUE", hint=f"fields: {', '.join(known)}"
            )
        wanted[name] = value
    return wanted
