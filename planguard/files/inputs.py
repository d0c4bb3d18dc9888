"""What is read: no pipe by mistake, and a list of it, so that nothing of it is written over."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import PlanError, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _typeshed import StrPath

STDOUT = "-"
"""Standard output where a file is written, standard input where one is read."""
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def kind_of(mode: int) -> str:
    """Return what a path is that is neither a file nor a folder; "" for those two."""
    return _KINDS.get(stat.S_IFMT(mode), "")


def is_special(path: StrPath) -> bool:
    """Whether a path leads to a pipe, a socket or a device, whose reading may never end."""
    try:
        return kind_of(Path(path).stat().st_mode) != ""
    except (OSError, ValueError):
        return False


def refuse_special(path: StrPath) -> None:
    """Refuse to read what is neither a file nor a folder: opening a pipe waits for its writer.

    Raises:
        PlanError: It is a pipe, a socket or a device, or a link that leads nowhere.
    """
    name = os.fspath(path)
    try:
        what = kind_of(Path(name).stat().st_mode)
    except (OSError, ValueError):
        if Path(name).is_symlink():
            where = shorten(str(Path(name).readlink()))
            raise PlanError(
                f"a link that leads nowhere: {where} is not there", file=name, hint="mend the link"
            ) from None
        return  # the reader says what is wrong with the path
    if what:
        hint = "read from standard input instead, where the command can: ... | planguard check -"
        raise PlanError(f"{what}, not a file", file=name, hint=hint)


_read: set[str] | None = None
"""Files that were opened for reading since ``record_reads``; None: nobody asks."""
_is_hooked = False


@contextlib.contextmanager
def record_reads() -> Iterator[None]:
    """Remember which files this process opens for reading, until the end of the context.

    An adapter reads more than the path it is given: the files of the other ranks, a manifest. None
    of them may be written over, so ``Draft`` asks here before its last step. What other processes
    read is not seen; their inputs are told with ``Inputs``.
    """
    global _read, _is_hooked  # noqa: PLW0603  audit hooks are of the process and stay
    if not _is_hooked:
        sys.addaudithook(_note)
        _is_hooked = True
    before, _read = _read, set() if _read is None else _read
    try:
        yield
    finally:
        _read = before


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Look at a file without making it an input: only to see whether it is one."""
    global _read  # noqa: PLW0603  as above
    before, _read = _read, None
    try:
        yield
    finally:
        _read = before


def _note(event: str, args: tuple[object, ...]) -> None:
    if event != "open" or _read is None or not isinstance(args[0], (str, bytes)):
        return
    mode, flags = args[1], args[2]
    reads = isinstance(flags, int) and (flags & os.O_ACCMODE) != os.O_WRONLY
    if reads and (mode is None or "r" in str(mode) or "+" in str(mode)):
        # What is raised here would be raised by open(): a working directory may be gone.
        with contextlib.suppress(OSError, ValueError):
            _read.add(str(Path(os.fsdecode(args[0])).absolute()))


def reads() -> list[str]:
    """Return the files that were opened for reading since ``record_reads``, sorted."""
    return sorted(_read or ())


def was_read(real: Path) -> bool:
    """Whether a file was read under any of its names."""
    try:
        found = real.stat()
    except OSError:
        return False
    for name in tuple(_read or ()):
        with contextlib.suppress(OSError):
            one = Path(name).stat()
            if (one.st_dev, one.st_ino) == (found.st_dev, found.st_ino):
                return True
    return False


@dataclass(frozen=True)
class Inputs:
    """What a command reads, as identities of files: names, links and hard links are all one.

    Attributes:
        files: Device and inode of each file.
        folders: Folders that are read whole, as real paths.
    """

    files: frozenset[tuple[int, int]] = frozenset()
    folders: tuple[str, ...] = ()

    @classmethod
    def of(cls, paths: Iterable[StrPath]) -> Inputs:
        """Look at every path; what is not there is no input."""
        files, folders = set(), []
        for path in paths:
            try:
                found = Path(path).stat()
            except (OSError, ValueError):
                continue
            if stat.S_ISDIR(found.st_mode):
                folders.append(os.path.realpath(path))
            files.add((found.st_dev, found.st_ino))
        return cls(frozenset(files), tuple(folders))

    def holds(self, real: str, found: os.stat_result) -> bool:
        """Whether a file that exists is one of them, or lies in one of the folders."""
        identity = (found.st_dev, found.st_ino)
        if identity in self.files:
            return True
        if any(real.startswith(folder.rstrip("/") + "/") for folder in self.folders):
            return True
        # A hard link to a file of a folder has its name elsewhere.
        return found.st_nlink > 1 and any(identity in _identities(one) for one in self.folders)


def _identities(folder: str) -> set[tuple[int, int]]:
    found = set()
    for here, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                one = (Path(here) / name).stat()
                found.add((one.st_dev, one.st_ino))
    return found
