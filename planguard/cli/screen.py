"""``planguard screen``: many plans, and what is wrong with which of them."""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
import time
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.cli.outputs import targets_of
from planguard.errors import UsageError, shorten
from planguard.files import write
from planguard.options import MODEL_NAMES, seconds
from planguard.report.terminal import style_for
from planguard.words import clean, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.files import Target
    from planguard.screen.screening import Progress
    from planguard.screen.store import Store
    from planguard.screen.summary import Summary
    from planguard.screen.tracked import Tracked
    from planguard.screen.trials import Trials

_EPILOG = """\
examples:
  planguard screen trials/ --store screen.db            every plan below trials/, kept in screen.db
  planguard screen trials/ --store screen.db --resume   what is missing or has changed
  planguard screen trials/ --store screen.db --only unknown --budget 10s
  planguard screen --store screen.db --query "outcome = 'DEADLOCK' AND bucket_mb = 1"
  planguard screen --store screen.db --export rows.csv

exit codes:
  0 all safe   1 findings   2 usage, or an input that is no plan   3 undecided   4 internal error
"""
LISTED = 20
"""Names of files that were no trials, before the rest is a number."""
PROGRESS_EVERY = 10.0
"""Seconds between two lines of progress where stderr is no terminal."""


class Screen:
    """The command; see ``planguard screen --help``."""

    name = "screen"
    help = "Screen many plans: which are blocked, what they have in common, which parameters tell."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.epilog = _EPILOG
        add = parser.add_argument
        add("paths", nargs="*", metavar="PATH", help="plans: files, folders, patterns, JSONL")
        add("--planner", metavar="NAME", help="adapter to read PATH with")
        add("--params", action="append", default=[], metavar="FILE",
            help="parameters: CSV or JSON of runs, mlruns/, Optuna storage")  # fmt: skip
        add(
            "--model", choices=(*MODEL_NAMES, "all"), metavar="NAME", help="execution model, or all"
        )
        add("--budget", type=_seconds, metavar="SECONDS", help="of one check, such as 200ms")
        work = parser.add_argument_group("work")
        work.add_argument("--jobs", type=int, metavar="N", help="worker processes (default: cores)")
        work.add_argument(
            "--executor", metavar="NAME", help="processes, inline, ray[:ADDRESS], dask[:ADDRESS]"
        )
        work.add_argument(
            "--timeout",
            type=_seconds,
            default=60.0,
            metavar="SECONDS",
            help="time of one plan (default 60s)",
        )
        work.add_argument(
            "--memory", type=int, default=4096, metavar="MIB", help="memory of one plan"
        )
        work.add_argument("--no-cache", action="store_true", help="decide every plan by itself")
        _add_store(parser.add_argument_group("store and output"))
        gate = parser.add_argument_group("gate")
        gate.add_argument("--exit-zero", action="store_true", help="exit 0 instead of 1")
        gate.add_argument("--allow-unknown", action="store_true", help="exit 0 instead of 3")

    def run(self, args: argparse.Namespace) -> int:
        """Screen, or read a store, and print the summary.

        Raises:
            UsageError: Nothing to do, or an option that cannot be.
        """
        _settle(args)
        if args.query is not None:
            return _query(args)
        if not args.paths:
            return _read(args)
        return _screen(args)


def _add_store(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--store", metavar="FILE", help="SQLite file that keeps the rows")
    add("--resume", action="store_true", help="go on with an existing store")
    add("--only", choices=("unknown",), help="take up the undecided rows of the store")
    add("--query", metavar="SQL", help="a condition on rows, or a SELECT; reads the store only")
    add("--export", action="append", default=[], metavar="FILE", help=".csv, .jsonl or .parquet")
    add("--blocked", metavar="FILE", help="write the names of the unsafe trials")
    add("--format", choices=("text", "json"), default="text", help="what to print")
    add("--force", action="store_true", help="overwrite existing files")
    add("-q", "--quiet", action="store_true", help="no progress")


def _seconds(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _settle(args: argparse.Namespace) -> None:
    """Refuse what cannot be before anything is read."""
    from planguard import registry
    from planguard.screen.export import check_target

    if args.planner is not None:
        registry.find(args.planner)
    for path in args.export:
        check_target(path)
    if not args.paths or args.query is not None:
        if args.store is None:
            raise UsageError("no plan given", hint="planguard screen FOLDER")
        if not Path(args.store).is_file():
            raise UsageError(f"{shorten(args.store)}: no such store", hint="is the path right?")
    elif args.store is not None and Path(args.store).exists() and not _goes_on(args):
        hint = "--resume goes on with it, --force starts anew"
        raise UsageError(f"{shorten(args.store)} exists", hint=hint)
    if args.only is not None and args.store is None:
        raise UsageError("--only needs a store", hint="--store FILE")
    if args.params and not args.paths:
        raise UsageError("--params is of trials that are screened", hint="name their folder, too")
    if args.timeout < 0 or args.memory < 0:
        raise UsageError("a limit is negative", hint="0 means no limit")


def _goes_on(args: argparse.Namespace) -> bool:
    return bool(args.force or args.resume or args.only)


@dataclass(frozen=True)
class _Files:
    """What a screening writes beside its store.

    Attributes:
        exports: Target and how it was given.
        blocked: Of the names of unsafe trials, or None.
    """

    exports: tuple[tuple[Target, str], ...]
    blocked: Target | None


def _claimed(args: argparse.Namespace, inputs: Sequence[str]) -> _Files:
    """Settle what is written, before any work.

    Raises:
        UsageError: A file must not be written: it exists, is an input, or is named twice.
    """
    targets = targets_of(args, inputs)
    if args.store is not None:
        # A store that exists is gone on with, or emptied: never another kind of file.
        is_there = Path(args.store).exists()
        replace(targets, force=targets.force or is_there).claim(args.store, "--store")
    exports = tuple((targets.claim(path, "--export"), path) for path in args.export)
    blocked = None if args.blocked is None else targets.claim(args.blocked, "--blocked")
    return _Files(exports, blocked)


def _screen(args: argparse.Namespace) -> int:
    from planguard.screen import screen
    from planguard.screen.tasks import Limits
    from planguard.screen.tracked import tracked
    from planguard.screen.trials import Trials

    started = time.monotonic()
    meter = _Meter(is_quiet=args.quiet)
    runs = tracked(args.params) if args.params else None
    trials = Trials(list(args.paths), args.planner, runs)
    if not trials.total:
        raise UsageError("no trial in what was named", hint="planguard screen FOLDER")
    files = _claimed(args, [*trials.files, *args.params])
    screening = screen(
        trials,
        jobs=args.jobs,
        executor=args.executor,
        store=args.store,
        model=args.model,
        budget=args.budget,
        planner=args.planner,
        limits=Limits(args.timeout, args.memory),
        cache=not args.no_cache,
        only=args.only,
        fresh=args.force and not (args.resume or args.only),
        progress=meter,
    )
    rows = screening.rows()
    try:
        deque(rows, maxlen=0)
    except KeyboardInterrupt:
        rows.close()
        meter.close()
        if args.store is not None:
            done = screening.store.count()
            print(f"{plural(done, 'row')} in {args.store}; go on with --resume", file=sys.stderr)
        screening.store.close()
        raise
    meter.close()
    if runs is not None:
        print(_joined(runs), file=sys.stderr)
    return _finish(args, screening.store, files, time.monotonic() - started, trials)


def _read(args: argparse.Namespace) -> int:
    """Print what a store says, screening nothing."""
    from planguard.screen.store import Store

    files = _claimed(args, [])
    store = Store(args.store, reading=True)
    others = store.resume(args.model)
    if others:
        print(f"left out of {args.store}: {'; '.join(others)} (--model NAME)", file=sys.stderr)
    return _finish(args, store, files, None)


def _query(args: argparse.Namespace) -> int:
    from planguard.screen.store import query

    names, rows = query(args.store, args.query)
    if args.format == "json":
        for row in rows:
            print(json.dumps(dict(zip(names, row, strict=True))))
        return 0
    cells = [names, *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(names))]
    for line in cells:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(padded).rstrip())
    print(plural(len(rows), "row"), file=sys.stderr)
    return 0


def _broken(line: str, width: int) -> list[str]:
    """Return a line in pieces that fit the terminal."""
    margin = line[: len(line) - len(line.lstrip())]
    if len(line) <= width:
        return [line]
    return textwrap.wrap(
        line.strip(), width, initial_indent=margin, subsequent_indent=margin + "    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _cell(value: object) -> str:
    return "" if value is None else shorten(str(value), 60)


def _finish(
    args: argparse.Namespace,
    store: Store,
    files: _Files,
    took: float | None,
    trials: Trials | None = None,
) -> int:
    """Print the summary, write the files, and return the exit code."""
    from planguard.screen.export import export
    from planguard.screen.summary import lines_of, summarize, to_json

    summary = summarize(store)
    skipped = trials.skipped if trials is not None else []
    if args.format == "json":
        print(json.dumps({**to_json(summary), "skipped": list(skipped)}, indent=2))
    else:
        width = style_for(sys.stdout).width
        print("\n".join(piece for line in lines_of(summary) for piece in _broken(line, width)))
    for target, path in files.exports:
        print(f"wrote {path} ({plural(export(store, target), 'row')})", file=sys.stderr)
    if files.blocked is not None:
        write(
            files.blocked,
            (f"{clean(row.name)}\n".encode() for row in store.rows() if row.is_unsafe),
        )
        print(f"wrote {args.blocked} ({plural(summary.unsafe, 'name')})", file=sys.stderr)
    damaged = trials.damaged if trials is not None else {}
    for error in damaged.values():
        print(f"not screened: {error.message} ({error.hint})", file=sys.stderr)
    if strange := [path for path in skipped if path not in damaged]:
        width = style_for(sys.stderr).width
        print("\n".join(_broken(_passed_over(strange), width)), file=sys.stderr)
    if trials is not None and (unread := trials.beside.unread):
        first, why = next(iter(unread.items()))
        what = f"{plural(len(unread), 'file')} of parameters not read"
        print(f"{what}: {shorten(first, 100)}: {why}", file=sys.stderr)
    if took is not None:
        kept = f", kept in {args.store}" if args.store else ""
        print(f"screened {plural(summary.total, 'trial')} in {took:.1f} s{kept}", file=sys.stderr)
    if "PG903" in summary.codes.get("UNKNOWN", ()) and args.store:
        print("undecided: --only unknown takes them up, --budget 10s", file=sys.stderr)
    store.close()
    return _code(args, summary)


def _joined(runs: Tracked) -> str:
    """Say how many runs of a tracker belong to a trial, and what was left on either side."""
    idle = len(runs.rows) - len(runs.used)
    return (
        f"parameters of {plural(len(runs.used), 'run')} joined; {plural(idle, 'run')} without a "
        f"trial, {plural(runs.without, 'trial')} without a run"
    )


def _passed_over(skipped: Sequence[str]) -> str:
    """Say what was looked at and is no trial: how many, and their names, like ones together."""
    alike: dict[str, list[str]] = {}
    for path in skipped:
        alike.setdefault(re.sub(r"\d+", "#", Path(path).name), []).append(path)
    groups = sorted(alike.values(), key=len, reverse=True)
    named = [one[0] if len(one) == 1 else f"{Path(one[0]).name} ({len(one):,})" for one in groups]
    shown = ", ".join(shorten(name, 100) for name in named[:LISTED])
    more = len(skipped) - sum(map(len, groups[:LISTED]))
    rest = f" and {more:,} more" if more > 0 else ""
    hint = " (--format json lists all)" if rest or len(groups) < len(skipped) else ""
    count = plural(len(skipped), "file")
    return f"not screened, no plan is recognized in {count}: {shown}{rest}{hint}"


def _code(args: argparse.Namespace, summary: Summary) -> int:
    unknown = summary.trials.get("UNKNOWN", 0) - summary.refused - summary.crashed
    if summary.crashed:
        return 4
    if summary.refused:
        return 2
    if summary.unsafe and not args.exit_zero:
        return 1
    if unknown and args.allow_unknown:
        print(f"--allow-unknown covered {plural(unknown, 'undecided trial')}", file=sys.stderr)
    return 3 if unknown and not args.allow_unknown else 0


class _Meter:
    """Progress on stderr: a line that is written over on a terminal, else one every 10 s."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._is_terminal = sys.stderr.isatty()
        self._said = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if self._is_quiet:
            return
        if self._is_terminal:
            print(f"\r{_line(progress)}\x1b[K", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._said >= PROGRESS_EVERY:
            self._said = time.monotonic()
            print(_line(progress), file=sys.stderr)

    def close(self) -> None:
        """End the line."""
        if self._is_terminal and not self._is_quiet:
            print("\r\x1b[K", end="", file=sys.stderr)


def _line(progress: Progress) -> str:
    total = f"/{progress.total:,}" if progress.total is not None else ""
    eta = progress.eta
    minutes, rest = divmod(round(eta or 0), 60)
    left = "" if eta is None else f"  eta {minutes // 60}:{minutes % 60:02}:{rest:02}"
    bar = ""
    if progress.total:
        filled = round(24 * min(1.0, progress.done / progress.total))
        bar = "#" * filled + "-" * (24 - filled) + "  "
    return f"screening  {bar}{progress.done:,}{total}  {progress.rate:,.0f}/s{left}"
