"""``planguard check --repair`` and ``--fix``: search a repair, show it, write the changed plan."""

from __future__ import annotations

import gzip
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import UsageError, shorten

if TYPE_CHECKING:
    import argparse

    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict

SAY_EVERY = 2.0
"""Seconds between two lines of progress."""
SUFFIXES = (".plan.json.gz", ".plan.json", ".json.gz", ".json")


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Declare --repair and --fix."""
    group.add_argument(
        "--repair", action="store_true", help="search the smallest change that makes it safe"
    )
    group.add_argument(
        "--fix", action="store_true", help="the same, and write PLAN.fixed.plan.json (-o plan=FILE)"
    )


def settle(args: argparse.Namespace) -> None:
    """Refuse outputs that cannot be before anything is read.

    Raises:
        UsageError: A file would be written over, or ``-o plan=FILE`` does not say which plan.
    """
    named = [given for given in args.output if given.startswith("plan=")]
    if named and not (args.fix and len(args.paths) == 1 and len(named) == 1):
        raise UsageError("-o plan=FILE: one plan and --fix", hint="planguard check --fix PLAN.json")
    if args.for_all and (args.repair or args.fix):
        hint = "repair the plan at one size, then check the repaired plan with --for-all"
        raise UsageError("--for-all searches no repairs", hint=hint)
    if not args.fix:
        return
    for path in args.paths:
        target = target_of(args, path)
        if target.exists() and not args.force:
            raise UsageError(f"{shorten(str(target))} exists", hint="--force overwrites it")


def target_of(args: argparse.Namespace, path: str) -> Path:
    """Return where the changed plan goes: beside the plan, unless it was told."""
    for given in args.output:
        if given.startswith("plan="):
            return Path(given.removeprefix("plan="))
    file = Path(path)
    suffix = next((end for end in SUFFIXES if file.name.endswith(end)), "")
    stem = file.name.removesuffix(suffix) if suffix else file.stem
    return file.with_name(f"{stem}.fixed{suffix or '.plan.json'}")


def repaired(
    args: argparse.Namespace, path: str, plan: Plan, verdict: Verdict, options: CheckOptions
) -> tuple[Verdict, str]:
    """Return the verdict with its repair, and what to say at the end.

    With ``--fix`` the changed plan is written.
    """
    from planguard.repair import fix

    said = time.monotonic()

    def progress(tried: int) -> None:
        nonlocal said
        if time.monotonic() - said > SAY_EVERY:
            said = time.monotonic()
            print(f"repair: {tried:,} changed plans decided", file=sys.stderr)

    fixed = fix(plan, verdict, options, progress)
    if fixed.text is None:
        return fixed.verdict, ""
    if not args.fix:
        command = f"planguard check --fix {shlex.quote(path)}"
        return fixed.verdict, f"write the repaired plan with: {command}"
    target = target_of(args, path)
    _write(target, fixed.text)
    command = f"planguard check {shlex.quote(str(target))}"
    return fixed.verdict, f"wrote {target} (the repaired plan); check it with: {command}"


def _write(target: Path, text: bytes) -> None:
    """Put a file in place when it is complete."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(gzip.compress(text, mtime=0) if target.suffix == ".gz" else text)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
