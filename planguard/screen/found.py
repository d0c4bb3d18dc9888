"""What is a trial below a folder or among the files of a pattern, and what was passed over.

Content decides, not names: a plan file, lines of plans, or what an adapter recognizes, be it a file
or a whole folder. A file that is not recognized but is called like a trial (``schedule.csv`` in
one folder of two hundred) is a trial too: a broken one must be a row and not a gap.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from planguard.errors import UsageError, shorten
from planguard.files import is_special, unrecorded
from planguard.loading import HEAD, PLAN_FIELDS, is_recognized

PLAN_SUFFIXES = (".plan.json", ".plan.json.gz")
LINE_SUFFIXES = (".jsonl", ".ndjson")
PARAMS_FILE = "params.json"
"""Parameters of the trials of a folder; Ray Tune writes it into every trial's folder."""
PARAMS_SUFFIX = ".params.json"


@dataclass
class Found:
    """What a path or a pattern stands for.

    Attributes:
        trials: Files and folders, sorted.
        skipped: What was looked at and is no trial, sorted; of a hidden folder its own name.
    """

    trials: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def find(given: str, planner: str | None = None) -> Found:
    """Return what a path or a pattern stands for.

    Args:
        given: A file, a folder or a pattern.
        planner: The adapter that was named; what it is to read is not asked of the others.

    Raises:
        UsageError: Nothing is there, or nothing of it is a trial.
    """
    path = Path(given)
    if path.is_dir():
        if _is_whole(path):
            return Found([given])
        return _sorted_out(given, *_walked(path), planner)
    if path.exists() or path.is_symlink():
        return Found([], [given]) if _is_params(given) else Found([given])
    named = sorted(glob.glob(given, recursive=True)) if glob.has_magic(given) else []  # noqa: PTH207
    if not named:
        raise UsageError(f"{shorten(given)}: no such file or folder", hint="is the path right?")
    files, skipped, below = [], [], Found()
    for one in named:
        if Path(one).is_dir() and planner is None:
            try:
                inside = find(one)
            except UsageError:
                skipped.append(one)
                continue
            below.trials += inside.trials
            below.skipped += inside.skipped
        elif not _is_params(one):
            files.append(one)
    if files or not below.trials:
        chosen = _sorted_out(given, files, skipped, planner, is_named=not below.trials)
    else:
        chosen = Found([], skipped)
    return Found(sorted({*chosen.trials, *below.trials}), sorted(chosen.skipped + below.skipped))


def _is_whole(path: Path) -> bool:
    """Whether a folder is one trial: an adapter reads it, and nothing in it is a trial by itself.

    Some adapters look for their files in the folders below, too: one such folder must not hide all
    the others beside it.
    """
    if not is_recognized(str(path)):
        return False
    try:
        inside = list(path.iterdir())
    except OSError:  # told where it is walked
        return False
    if any(one.name.endswith(PLAN_SUFFIXES) for one in inside):
        return False
    return not any(one.is_dir() and is_recognized(str(one)) for one in inside)


def _is_params(name: str) -> bool:
    return Path(name).name == PARAMS_FILE or name.endswith(PARAMS_SUFFIX)


def _walked(top: Path) -> tuple[list[str], list[str]]:
    """Return files and planners' folders below a folder, and the hidden ones that were left."""
    found: list[str] = []
    skipped: list[str] = []
    seen = set()

    def unreadable(error: OSError) -> None:
        skipped.append(str(error.filename))

    for here, folders, files in os.walk(top, followlinks=True, onerror=unreadable):
        state = Path(here).stat()
        if (state.st_dev, state.st_ino) in seen:  # another name of a folder, perhaps one above
            skipped.append(here)
            folders.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        skipped += [str(Path(here, name)) for name in (*folders, *files) if name[:1] == "."]
        visible = [name for name in folders if name[:1] != "."]
        whole = [name for name in visible if _is_whole(Path(here, name))]
        found += [str(Path(here, name)) for name in whole]
        folders[:] = sorted(name for name in visible if name not in whole)
        found += [
            str(Path(here, name)) for name in files if name[:1] != "." and not _is_params(name)
        ]
    return found, skipped


def _sorted_out(
    given: str,
    found: list[str],
    skipped: list[str],
    planner: str | None,
    *,
    is_named: bool = False,
) -> Found:
    """Divide what lies there into trials and the rest.

    Raises:
        UsageError: There is no trial, and the files were not named one by one.
    """
    sure = {path for path in found if _is_trial(path)}
    names = {_shape(path) for path in sure}
    trials = [path for path in found if path in sure or _shape(path) in names]
    if not trials and (is_named or planner is not None):
        # Named by a pattern, or for an adapter that was named: their reader says what is wrong.
        trials = [path for path in found if not is_special(path)]
    rest = sorted({*found, *skipped} - set(trials))
    if not trials:
        what = f"{len(rest)} looked at, none is a plan" if rest else "an empty folder"
        hint = "--planner names the adapter that reads them" if rest else "is the path right?"
        raise UsageError(f"{shorten(given)}: {what}", hint=hint)
    return Found(sorted(trials), rest)


def _is_trial(path: str) -> bool:
    if is_special(path):
        return False
    if path.endswith(LINE_SUFFIXES):
        return _has_plans(path)
    return path.endswith(PLAN_SUFFIXES) or is_recognized(path)


def _has_plans(path: str) -> bool:
    """Whether the beginning of a file of lines speaks of plans; logs are lines of JSON as well."""
    try:
        with unrecorded(), Path(path).open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return True  # the reader says what is wrong with it
    return any(f'"{field}"'.encode() in head for field in ("plan", *PLAN_FIELDS)) or _names(head)


def _names(head: bytes) -> bool:
    """Whether the first line names a file, with at most a name and parameters beside it."""
    try:
        first = msgspec.json.decode(head.lstrip().partition(b"\n")[0])
    except (msgspec.DecodeError, RecursionError):
        return False
    return (
        isinstance(first, dict) and "path" in first and first.keys() <= {"path", "name", "params"}
    )


def _shape(path: str) -> tuple[str, str]:
    """Return what files of one kind have in common: the whole name, with numbers left out."""
    name = Path(path).name
    return "".join("#" if letter.isdigit() else letter for letter in name), Path(name).suffix
