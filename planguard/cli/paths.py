"""What is named on a command line: patterns that the shell left alone, folders, what is no file."""

from __future__ import annotations

import argparse
import glob
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.cli.adapters import load_plan
from planguard.errors import PlanError, UsageError
from planguard.files import STDOUT
from planguard.words import plural

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.screen.trials import Trial, Trials


@dataclass
class Inside:
    """What has no file of its own: plans in archives and in lines of JSONL.

    Attributes:
        plans: The plans, and whose archives they are in, by the place that is told.
        files: The files that they are in, which are inputs as well.
        refused: Why there is no plan in an archive, by its path.
    """

    plans: dict[str, tuple[Trials, Trial]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    refused: dict[str, PlanError] = field(default_factory=dict)

    def load(self, path: str, args: argparse.Namespace) -> Plan:
        """Read a path of the command line, be it a file or a place inside of one.

        Raises:
            PlanError: The input cannot be read as a plan.
            UsageError: No adapter takes it, or it has no such option.
        """
        if path in self.refused:
            raise self.refused[path]
        if path not in self.plans:
            return load_plan(path, args)
        trials, trial = self.plans[path]
        if not trial.path:
            return load_plan(path, args, trial.data)
        told = [(name, _absolute(value)) for name, value in args.option]
        with trials.at_home(trial) as given:
            return load_plan(given, argparse.Namespace(**{**vars(args), "option": told}))


def expanded(
    paths: list[str], planner: str | None = None, inside: Inside | None = None
) -> list[str]:
    """Return the plans that paths, folders, patterns, archives and files of lines stand for.

    They stand for what ``planguard screen`` finds in them. What stands for nothing is left as it
    is, so that its reader says what is wrong with it.

    Args:
        paths: As they were given.
        planner: The adapter that was named; it gets the folders and the files of lines.
        inside: Gets what is found inside archives and files of lines.
    """
    within = Inside() if inside is None else inside
    found: list[str] = []
    for given in paths:
        if given == STDOUT or Path(given).exists() or not glob.has_magic(given):
            named = [given]
        else:
            named = sorted(glob.glob(given, recursive=True)) or [given]  # noqa: PTH207  absolute too
        plans = [plan for path in named for plan in _plans(path, planner, within)]
        # What patterns and folders have in common is one plan; what was typed twice is meant twice.
        found += plans if plans == [given] else [plan for plan in plans if plan not in found]
    return found


def _plans(path: str, planner: str | None, inside: Inside) -> list[str]:
    from planguard import registry
    from planguard.screen.archives import is_archive
    from planguard.screen.found import LINE_SUFFIXES
    from planguard.screen.trials import Trials

    is_packed = is_archive(path)
    holds_lines = path.endswith(LINE_SUFFIXES) and Path(path).is_file()
    if path == STDOUT or not (is_packed or holds_lines or Path(path).is_dir()):
        return [path]
    if not is_packed and planner is not None:
        return [path]
    try:
        if holds_lines and registry.recognize(path) is not None:
            return [path]  # an adapter reads it as a whole
        trials = Trials([path], planner)
        found = list(trials)
    except UsageError as error:
        if is_packed:
            hint = error.hint
            inside.files.append(path)
            inside.refused[path] = PlanError(error.message, file=path, hint=hint)
        return [path]
    for trial in found:
        if trial.place != trial.path:
            inside.plans[trial.place] = trials, trial
    inside.files += trials.files
    for archive, why in trials.damaged.items():
        inside.refused[archive] = PlanError(why.message, file=archive, hint=why.hint)
    left = len(trials.skipped) - len(trials.damaged)
    if left:
        told = f"{plural(left, 'other file')} of it {'is' if left == 1 else 'are'} no plan"
        print(f"{path}: {plural(len(found), 'plan')}; {told}", file=sys.stderr)
    return [*(trial.place for trial in found), *trials.damaged] or [path]


def _absolute(value: Any) -> Any:
    """Return an adapter's option; the name of a file as it is from everywhere."""
    is_file = isinstance(value, str) and "\0" not in value and Path(value).exists()
    return str(Path(value).absolute()) if is_file else value


def unreadable(error: OSError, path: str) -> PlanError:
    """Return the refusal of an input that the system did not give."""
    reason = error.strerror or type(error).__name__
    if error.filename is None:
        return PlanError(f"the system refused: {reason}", file=path, hint="a limit of the machine?")
    return PlanError(f"cannot be read: {reason}", file=path, hint="is the path right?")
