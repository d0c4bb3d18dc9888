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
from planguard.loading import HEAD, PLAN_FIELDS, recognized

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
        readers: The adapter that recognized a trial, of those that one did.
    """

    trials: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    readers: dict[str, str] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        """Take in what another path stands for."""
        self.trials += other.trials
        self.skipped += other.skipped
        self.readers |= other.readers


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
        reader = _reader_of_whole(path)
        if reader is not None:
            return Found([given], readers=_named(given, reader))
        return _sorted_out(given, _walked(path), planner)
    if path.exists() or path.is_symlink():
        return Found([], [given]) if _is_params(given) else Found([given])
    named = sorted(glob.glob(given, recursive=True)) if glob.has_magic(given) else []  # noqa: PTH207
    if not named:
        raise UsageError(f"{shorten(given)}: no such file or folder", hint="is the path right?")
    files, below = Found(), Found()
    for one in named:
        if Path(one).is_dir() and planner is None:
            try:
                inside = find(one)
            except UsageError:
                files.skipped.append(one)
                continue
            below.add(inside)
        elif not _is_params(one):
            files.trials.append(one)
    if files.trials or not below.trials:
        files = _sorted_out(given, files, planner, is_named=not below.trials)
    below.add(files)
    return Found(sorted(set(below.trials)), sorted(below.skipped), below.readers)


def _reader_of_whole(path: Path) -> str | None:
    """Return who reads a folder that is one trial, as ``recognized`` does; None where it is not.

    It is one where an adapter reads it, and nothing in it is a trial by itself. Some adapters look
    for their files in the folders below, too: one such folder must not hide all the others beside
    it.
    """
    reader = recognized(str(path))
    if reader is None:
        return None
    try:
        inside = list(path.iterdir())
    except OSError:  # told where it is walked
        return None
    if any(one.name.endswith(PLAN_SUFFIXES) for one in inside):
        return None
    if any(one.is_dir() and recognized(str(one)) is not None for one in inside):
        return None
    return reader


def _named(path: str, reader: str) -> dict[str, str]:
    return {path: reader} if reader else {}


def _is_params(name: str) -> bool:
    return Path(name).name == PARAMS_FILE or name.endswith(PARAMS_SUFFIX)


def _walked(top: Path) -> Found:
    """Return files and planners' folders below a folder, and the hidden ones that were left."""
    found = Found()
    skipped = found.skipped
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
        folders.clear()
        for name in sorted(visible):
            path = Path(here, name)
            reader = _reader_of_whole(path)
            if reader is None:
                folders.append(name)
            else:
                found.add(Found([str(path)], readers=_named(str(path), reader)))
        found.trials += [
            str(Path(here, name)) for name in files if name[:1] != "." and not _is_params(name)
        ]
    return found


def _sorted_out(given: str, found: Found, planner: str | None, *, is_named: bool = False) -> Found:
    """Divide what lies there into trials and the rest.

    Raises:
        UsageError: There is no trial, and the files were not named one by one.
    """
    readers = found.readers
    names: set[tuple[str, str]] = set()
    unsure = []
    for path in found.trials:
        reader = readers[path] if path in readers else _reader_of(path)
        if reader is None:
            unsure.append(path)
            continue
        readers |= _named(path, reader)
        names.add(_shape(path))
    left = {path for path in unsure if _shape(path) not in names}
    trials = [path for path in found.trials if path not in left]
    if not trials and (is_named or planner is not None):
        # Named by a pattern, or for an adapter that was named: their reader says what is wrong.
        trials = [path for path in found.trials if not is_special(path)]
    rest = sorted({*left, *found.skipped} - set(trials))
    if not trials:
        what = f"{len(rest)} looked at, none is a plan" if rest else "an empty folder"
        hint = "--planner names the adapter that reads them" if rest else "is the path right?"
        raise UsageError(f"{shorten(given)}: {what}", hint=hint)
    return Found(sorted(trials), rest, readers)


def _reader_of(path: str) -> str | None:
    """Return who reads a trial, as ``recognized`` does; None where it is none."""
    if is_special(path):
        return None
    if path.endswith(LINE_SUFFIXES):
        return "" if _has_plans(path) else None
    return "" if path.endswith(PLAN_SUFFIXES) else recognized(path)


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
