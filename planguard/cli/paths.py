"""What is named on a command line: patterns that the shell left alone, folders, what is no file."""

from __future__ import annotations

import glob
import sys
from pathlib import Path

from planguard.errors import PlanError, UsageError
from planguard.files import STDOUT
from planguard.words import plural


def expanded(paths: list[str], planner: str | None = None) -> list[str]:
    """Return the plans that paths, folders and patterns stand for.

    A folder stands for what ``planguard screen`` recognizes in it, but for lines of JSONL. What
    stands for nothing is left as it is, so that its reader says what is wrong with it.

    Args:
        paths: As they were given.
        planner: The adapter that was named; it gets the folders.
    """
    found: list[str] = []
    for given in paths:
        if given == STDOUT or Path(given).exists() or not glob.has_magic(given):
            named = [given]
        else:
            named = sorted(glob.glob(given, recursive=True)) or [given]  # noqa: PTH207  absolute too
        plans = [plan for path in named for plan in _plans(path, planner)]
        # What patterns and folders have in common is one plan; what was typed twice is meant twice.
        found += plans if plans == [given] else [plan for plan in plans if plan not in found]
    return found


def _plans(path: str, planner: str | None) -> list[str]:
    folder = Path(path)
    if planner is not None or path == STDOUT or not folder.is_dir():
        return [path]
    from planguard.screen.found import LINE_SUFFIXES, find

    try:
        found = find(path)
    except UsageError:
        return [path]
    plans = [one for one in found.trials if not one.endswith(LINE_SUFFIXES)]
    left = len(found.skipped) + len(found.trials) - len(plans)
    if left:
        told = f"{plural(left, 'other file')} of it {'is' if left == 1 else 'are'} no plan"
        print(f"{path}: {plural(len(plans), 'plan')}; {told}", file=sys.stderr)
    return plans or [path]


def unreadable(error: OSError, path: str) -> PlanError:
    """Return the refusal of an input that the system did not give."""
    reason = error.strerror or type(error).__name__
    if error.filename is None:
        return PlanError(f"the system refused: {reason}", file=path, hint="a limit of the machine?")
    return PlanError(f"cannot be read: {reason}", file=path, hint="is the path right?")
