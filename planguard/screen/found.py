"""What is a trial below a folder or among the files of a pattern, and what was passed over.

Content decides, not names: a plan file, lines of plans, or what an adapter recognizes, be it a file
or a whole folder. A file that is not recognized but is called like a trial (``schedule.csv`` in
one folder of two hundred) is a trial too: a broken one must be a row and not a gap.
"""

from __future__ import annotations

import glob
import os
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from planguard.errors import UsageError, shorten
from planguard.files import is_special, unrecorded
from planguard.loading import HEAD, PLAN_FIELDS, recognized
from planguard.screen.archives import is_archive

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAN_SUFFIXES = (".plan.json", ".plan.json.gz")
LINE_SUFFIXES = (".jsonl", ".ndjson")
PARAMS_FILE = "params.json"
"""Parameters of the trials of a folder; Ray Tune writes it into every trial's folder."""
PARAMS_SUFFIX = ".params.json"
HYDRA = ".hydra"
"""Folder in which Hydra keeps the configuration of a run, beside what the run writes."""
MLFLOW = "meta.yaml"
"""File that MLflow's store keeps beside ``params`` and ``artifacts`` of a run."""
PATH_FIELDS = frozenset({"path", "name", "params"})
"""Fields of a line that names a file instead of holding a plan."""
MAX_LINE = 256 << 20
"""Longest line of a JSONL file, bytes."""


@dataclass
class Found:
    """What a path or a pattern stands for.

    Attributes:
        trials: Files and folders, sorted.
        skipped: What was looked at and is no trial, sorted; of a hidden folder its own name.
        readers: The adapter that recognized a trial, of those that one did.
        archives: Archives, sorted; what is in them is found when they are unpacked.
    """

    trials: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    readers: dict[str, str] = field(default_factory=dict)
    archives: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Take in what another path stands for."""
        self.trials += other.trials
        self.skipped += other.skipped
        self.readers |= other.readers
        self.archives += other.archives


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
        if is_archive(given):
            return Found(archives=[given])
        return Found([], [given]) if is_params(given) else Found([given])
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
        elif not is_params(one):
            files.trials.append(one)
    if files.trials or not (below.trials or below.archives):
        files = _sorted_out(given, files, planner, is_named=not below.trials)
    below.add(files)
    below.trials = sorted(set(below.trials))
    below.skipped.sort()
    below.archives = sorted(set(below.archives))
    return below


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


def is_params(name: str) -> bool:
    """Whether a file or folder, by its name, holds parameters of what lies beside it."""
    own = os.path.basename(name)  # noqa: PTH119  asked of every file
    return own in {PARAMS_FILE, HYDRA} or own.endswith(PARAMS_SUFFIX) or is_wandb_config(name)


def is_wandb_config(name: str) -> bool:
    """Whether a file is where Weights & Biases keeps the configuration of a run."""
    if not name.endswith("config.yaml"):
        return False
    path = Path(name)
    run = path.parent.parent.name
    is_run = run.startswith(("run-", "offline-run-")) or run == "latest-run"
    return path.name == "config.yaml" and path.parent.name == "files" and is_run


def below(folder: Path, raw: msgspec.Raw | bytes) -> str | None:
    """Return the path that a line names, if it is there and below a folder, links followed."""
    given = msgspec.json.decode(raw)
    if not isinstance(given, str) or not given or "\0" in given:
        return None
    path = folder / given
    inside = path.resolve().is_relative_to(folder.resolve())
    return str(path) if inside and path.exists() else None


def _walked(top: Path) -> Found:
    """Return files and planners' folders below a folder, and the hidden ones that were left."""
    found = Found()
    skipped = found.skipped
    seen = set()

    def unreadable(error: OSError) -> None:
        skipped.append(str(error.filename))

    # Links come last: what is in the folder itself has its own name, not that of a link to it.
    tops = deque([top])
    while tops:
        for here, folders, files in os.walk(
            str(tops.popleft()).rstrip(os.sep) or os.sep, onerror=unreadable
        ):
            state = Path(here).stat()
            if (state.st_dev, state.st_ino) in seen:  # another name of a folder, perhaps one above
                skipped.append(here)
                folders.clear()
                continue
            seen.add((state.st_dev, state.st_ino))
            reader = None if here == str(top) else _reader_of_whole(Path(here))
            if reader is not None:
                found.add(Found([here], readers=_named(here, reader)))
                folders.clear()
                continue
            hidden = [name for name in (*folders, *files) if name[:1] == "." and name != HYDRA]
            skipped += [str(Path(here, name)) for name in hidden]
            visible = sorted(name for name in folders if name[:1] != ".")
            links = [name for name in visible if Path(here, name).is_symlink()]
            tops += [Path(here, name) for name in links]
            folders[:] = [name for name in visible if name not in links]
            if {"params", "artifacts"} <= {*folders} and MLFLOW in files:  # read with the artifacts
                folders.remove("params")
                files.remove(MLFLOW)
            paths = [f"{here}{os.sep}{name}" for name in files if name[:1] != "."]
            again = {path for path in paths if _is_beside(path)}
            skipped += sorted(again)
            found.trials += [path for path in paths if path not in again and not is_params(path)]
    return found


def _is_beside(path: str) -> bool:
    """Whether a file is a link to one of its own folder, which is a trial under its own name."""
    if not os.path.islink(path):  # noqa: PTH114  asked of every file
        return False
    target = os.path.realpath(path)
    here, name = os.path.split(target)
    if name[:1] == "." or here != os.path.realpath(os.path.dirname(path)):  # noqa: PTH120
        return False
    # One plan with parameters of its own is a trial of its own.
    return Path(target).is_file() and not os.path.exists(own_params(path))  # noqa: PTH110


def own_params(path: str) -> str:
    """Return where the parameters of this trial alone would lie."""
    suffixes = (*PLAN_SUFFIXES, os.path.splitext(path)[1])  # noqa: PTH122
    suffix = next((one for one in suffixes if one and path.endswith(one)), "")
    return f"{path[: len(path) - len(suffix)]}{PARAMS_SUFFIX}"


def _sorted_out(given: str, found: Found, planner: str | None, *, is_named: bool = False) -> Found:
    """Divide what lies there into trials and the rest.

    Raises:
        UsageError: There is no trial, and the files were not named one by one.
    """
    readers = found.readers
    archives = sorted(filter(is_archive, found.trials))
    found = replace(found, trials=[path for path in found.trials if not is_archive(path)])
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
    # A file that a line names is the trial of that line.
    named = {path for one in trials if one.endswith(LINE_SUFFIXES) for path in _named_by(one)}
    trials = [path for path in trials if os.path.normpath(path) not in named]
    if not trials and (is_named or planner is not None):
        # Named by a pattern, or for an adapter that was named: their reader says what is wrong.
        trials = [path for path in found.trials if not is_special(path)]
    rest = sorted(path for path in {*left, *found.skipped} - set(trials) if path not in named)
    if not (trials or archives):
        what = f"{len(rest)} looked at, none is a plan" if rest else "an empty folder"
        hint = "--planner names the adapter that reads them" if rest else "is the path right?"
        raise UsageError(f"{shorten(given)}: {what}", hint=hint)
    return Found(sorted(trials), rest, readers, archives)


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
    return _path_in(head.lstrip().partition(b"\n")[0]) is not None


def _path_in(line: bytes) -> bytes | None:
    """Return the path that a line is about, as JSON; None for another line."""
    try:
        if line[:1] == b'"':
            return line if isinstance(msgspec.json.decode(line), str) else None
        fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return None
    return bytes(fields["path"]) if "path" in fields and fields.keys() <= PATH_FIELDS else None


def _named_by(path: str) -> Iterator[str]:
    """Yield the files that the lines of a file name, if its first line names one."""
    folder = Path(path).parent
    try:
        with unrecorded(), Path(path).open("rb") as file:
            if not _names(file.read(HEAD)):
                return
            file.seek(0)
            while line := file.readline(MAX_LINE):
                given = _path_in(line.strip())
                if given is not None and (one := below(folder, given)) is not None:
                    yield os.path.normpath(one)
    except OSError:  # the reader says what is wrong with it
        return


def _shape(path: str) -> tuple[str, str]:
    """Return what files of one kind have in common: the whole name, with numbers left out."""
    name = Path(path).name
    return "".join("#" if letter.isdigit() else letter for letter in name), Path(name).suffix
