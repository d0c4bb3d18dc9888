"""``planguard check --repair`` and ``--fix``: search a repair, show it, write the changed plan."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import UsageError
from planguard.files import STDOUT, write_packed

if TYPE_CHECKING:
    import argparse

    from planguard.files import Targets
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


def settle(args: argparse.Namespace, targets: Targets) -> None:
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
    if args.inside.plans:
        hint = "unpack it, and name the plan's own file"
        raise UsageError("--fix: a plan inside another file cannot be written beside", hint=hint)
    # Claimed now, so that nothing is searched for a file that cannot be written.
    args.fixed = {path: targets.claim(target_of(args, path), "--fix") for path in args.paths}


def target_of(args: argparse.Namespace, path: str) -> Path:
    """Return where the changed plan goes: beside the plan, unless it was told."""
    for given in args.output:
        if given.startswith("plan="):
            return Path(given.removeprefix("plan="))
    if path == STDOUT:
        raise UsageError("--fix: standard input has no name", hint="-o plan=FILE names the file")
    file = Path(path)
    suffix = next((end for end in SUFFIXES if file.name.endswith(end)), "")
    stem = file.name.removesuffix(suffix) if suffix else file.stem
    return file.with_name(f"{stem}.fixed{suffix or '.plan.json'}")


def repaired(plan: Plan, verdict: Verdict, options: CheckOptions) -> tuple[Verdict, bytes | None]:
    """Return the verdict with its repair, and the text of the changed plan if there is one."""
    from planguard.repair import fix

    said = time.monotonic()

    def progress(tried: int) -> None:
        nonlocal said
        if time.monotonic() - said > SAY_EVERY:
            said = time.monotonic()
            print(f"repair: {tried:,} changed plans decided", file=sys.stderr)

    fixed = fix(plan, verdict, options, progress)
    return fixed.verdict, fixed.text


def announce(args: argparse.Namespace, path: str, text: bytes) -> str:
    """Write the changed plan, with ``--fix``, and return what to say.

    Raises:
        OSError: It cannot be written.
    """
    if path in args.inside.plans:
        return f"to write the repaired plan, unpack {path} and name its own file with --fix"
    if not args.fix:
        command = f"planguard check --fix {shlex.quote(path)}"
        return f"write the repaired plan with: {command}"
    target = args.fixed[path]
    write_packed(target, [text])
    command = f"planguard check {shlex.quote(str(target.path))}"
    return f"wrote {target.path} (the repaired plan); check it with: {command}"
