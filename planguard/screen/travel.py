"""A plan that travels to a worker elsewhere: its bytes go with it, and its name stays what it was.

A worker of Ray or Dask has another working directory and perhaps another machine. It reads the file
that was meant where it can see it, with the same bytes; else the bytes are laid out below a folder
of its own in the same relative places. Either way the reader gets the path that the caller gave, so
rows are the same wherever they were made.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from planguard.files import is_special

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.screen.tasks import Task


def packed(task: Task) -> Task:
    """Return a task with the caller's folder and the bytes of its file, or of its folder's files.

    What cannot be read here is sent as it is: the worker says what is wrong with it.
    """
    if not task.path:
        return task
    path = Path(os.fsdecode(task.path))
    try:
        if path.is_dir():
            parts = sorted(part for part in path.rglob("*") if part.is_file())
            files = tuple((os.fsencode(part), part.read_bytes()) for part in parts)
        else:
            files = () if is_special(path) else ((task.path, path.read_bytes()),)
    except OSError:
        files = ()
    return msgspec.structs.replace(task, folder=os.fsencode(Path.cwd()), files=files)


@contextlib.contextmanager
def at_home(task: Task) -> Iterator[None]:
    """Stand where the task's path leads to what the caller meant.

    The working directory is of the process: this is for workers that do one task at a time.
    """
    if not task.files:
        yield
        return
    before = Path.cwd()
    with contextlib.ExitStack() as stack:
        home = _home(task)
        if not _is_same(home, task):
            home = _laid_out(Path(stack.enter_context(tempfile.TemporaryDirectory())), task)
        stack.callback(os.chdir, before)
        os.chdir(home)
        yield


def readable(task: Task) -> str:
    """Return the path to read, inside ``at_home``: an absolute one may lie below that folder."""
    path = os.fsdecode(task.path)
    if not task.files or not os.path.isabs(path) or _is_same(_home(task), task):  # noqa: PTH117
        return path
    return str(_below(Path.cwd(), task).joinpath(*Path(path).parts[1:]))


def _home(task: Task) -> Path:
    return Path(os.fsdecode(task.folder))


def _is_same(home: Path, task: Task) -> bool:
    """Whether the files are there, with the bytes that the caller saw."""
    try:
        return all((home / os.fsdecode(name)).read_bytes() == data for name, data in task.files)
    except OSError:
        return False


def _laid_out(top: Path, task: Task) -> Path:
    """Write the files below a folder, and return where the caller's folder is in it."""
    home = top.joinpath(*_home(task).parts[1:])
    home.mkdir(parents=True)
    for name, data in task.files:
        full = Path(os.path.normpath(_home(task) / os.fsdecode(name)))
        place = top.joinpath(*full.parts[1:])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return home


def _below(home: Path, task: Task) -> Path:
    """Return the folder that stands for the root, seen from the one for the caller's folder."""
    depth = len(_home(task).parts) - 1
    return home.parents[depth - 1] if depth else home
