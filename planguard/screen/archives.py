"""Archives among the trials: unpacked into a folder of their own, within limits, never by name.

Only plain files come out, each below the folder: no link, no device, no name that leads elsewhere.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import shutil
import tarfile
import tempfile
import weakref
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from planguard.errors import UsageError, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MOST_FILES = 1_000_000
"""Most files of one archive."""
MOST_BYTES = 8 << 30
"""Most bytes that come out of one archive."""
_PIECE = 1 << 20
_DAMAGE = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
)
"""What the readers of archives raise on bytes that somebody changed."""


class Archives:
    """Unpacks archives for as long as it lives, and gives their files names that people know."""

    def __init__(self) -> None:
        self._folder = ""
        self._names: dict[str, str] = {}

    def unpacked(self, path: str) -> tuple[str, list[str]]:
        """Return the folder of an archive's files, and the names of what was left in it.

        Raises:
            UsageError: It cannot be read, or holds more than the limits allow.
        """
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="planguard-trials-")
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        given = Path(path)
        # Below a folder that stands for the caller's, so that a file's name is the same from there.
        inner = given.name if given.is_absolute() or ".." in given.parts else given
        top = Path(self._folder, str(len(self._names)), inner)
        top.mkdir(parents=True)
        self._names[str(top)] = path
        left: list[str] = []
        budget = MOST_BYTES
        try:
            for number, (name, file) in enumerate(_members(path)):
                target = _below(top, name)
                if file is None or target is None:
                    left.append(f"{path}/{name}")
                    continue
                if number >= MOST_FILES:
                    raise _too_large(path, f"more than {MOST_FILES:,} files")
                budget = _write(file, target, budget)
                if budget < 0:
                    raise _too_large(path, f"more than {MOST_BYTES >> 30} GiB")
        except _DAMAGE as error:
            shutil.rmtree(top, ignore_errors=True)
            hint = "is it whole, and without a password?"
            what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            what = shorten(f"cannot be unpacked: {what or type(error).__name__}", 200)
            raise UsageError(f"{shorten(path)}: {what}", hint=hint) from None
        return str(top), left

    @property
    def opened(self) -> list[str]:
        """The archives that were looked into."""
        return list(self._names.values())

    def shown(self, path: str) -> str:
        """Return the name of an unpacked file: the archive's and its own inside."""
        if self._folder and path.startswith(self._folder):
            for top, archive in self._names.items():
                if path.startswith(f"{top}/"):
                    return archive + path[len(top) :]
        return path

    @contextlib.contextmanager
    def at_home(self, path: str) -> Iterator[str]:
        """Stand where an unpacked file has the name that people know, and yield that name.

        Readers keep the name of a file in what they say about its lines. The working directory is
        of the process: this is for commands that read one file at a time.
        """
        inside = Path(path).relative_to(self._folder).parts
        before = Path.cwd()
        os.chdir(Path(self._folder, inside[0]))
        try:
            yield str(Path(*inside[1:]))
        finally:
            os.chdir(before)


def is_archive(path: str) -> bool:
    """Whether a file is called like an archive."""
    return path.endswith(SUFFIXES) and Path(path).is_file()


def _members(path: str) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Yield the files of an archive; None for what is neither a plain file nor a folder."""
    if path.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                kind = info.external_attr >> 28  # the type of file, of Unix; 0: not said
                if info.is_dir():
                    continue
                if kind not in {0, 8}:
                    yield info.filename, None
                    continue
                with archive.open(info) as file:
                    yield info.filename, file
        return
    with tarfile.open(path, "r|*") as tape:
        for member in tape:
            if member.isdir():
                continue
            yield member.name, tape.extractfile(member) if member.isfile() else None


def _below(top: Path, name: str) -> Path | None:
    """Return where a member goes; None for a name that leads out of the folder."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or parts[0] == "/" or ".." in parts or "\0" in name or ":" in parts[0]:
        return None
    return top.joinpath(*parts)


def _write(file: IO[bytes], target: Path, budget: int) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as out:
        while budget >= 0 and (piece := file.read(_PIECE)):
            budget -= len(piece)
            out.write(piece)
    return budget


def _too_large(path: str, what: str) -> UsageError:
    return UsageError(f"{shorten(path)}: {what}", hint="unpack it, and name the folder")
