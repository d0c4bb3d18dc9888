"""Files: what is written is there whole or not at all, and never in the place of what was read.

Every output of PlanGuard goes through ``target`` and ``Draft``. A draft lies in the folder of its
file, so that the last step is a rename on one file system, which POSIX makes atomic: whoever looks
sees what was there before or the whole new file. What ends a write (a full disk, a folder that is
not ours) is an ``OSError`` that names the file; what must not be written at all is a ``UsageError``
before anything is computed.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self, cast

from planguard.errors import UsageError, shorten
from planguard.files.inputs import (
    STDOUT,
    Inputs,
    is_special,
    kind_of,
    reads,
    record_reads,
    refuse_special,
    unrecorded,
    was_read,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from _typeshed import StrPath

__all__ = [
    "STDOUT",
    "Draft",
    "Inputs",
    "Target",
    "Targets",
    "is_special",
    "reads",
    "record_reads",
    "refuse_special",
    "target",
    "unrecorded",
    "write",
    "write_packed",
]


@dataclass(frozen=True)
class Target:
    """A file that may be written.

    Attributes:
        path: As it was given.
        real: Where it is: the end of a link.
        force: Whether a file that exists may be replaced.
    """

    path: Path
    real: Path
    force: bool


def target(path: StrPath, *, force: bool = True, inputs: Inputs | None = None) -> Target:
    """Say that a file is to be written, before anything is computed for it.

    Args:
        path: The file.
        force: Whether a file that exists may be replaced. An input never is.
        inputs: What the command reads.

    Raises:
        UsageError: It is an input, a folder, a pipe, a device or a link that leads nowhere; it
            exists; or its folder is not there or not ours.
    """
    name = os.fspath(path)
    shown = shorten(name, 200)
    if not name or name == STDOUT:
        raise UsageError(f"{shown or 'an empty name'} is no file", hint="name a file")
    real = os.path.realpath(name)
    try:
        found = Path(name).stat()
    except FileNotFoundError:
        if Path(name).is_symlink():
            hint = "name a file, or remove the link"
            raise UsageError(f"{shown} is a link that leads nowhere", hint=hint) from None
        _refuse_folder(shown, Path(real).parent)
        return Target(Path(name), Path(real), force)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot write {shown}: {reason}", hint="name another file") from None
    if stat.S_ISDIR(found.st_mode):
        raise UsageError(f"{shown} is a folder", hint="name a file in it")
    if not stat.S_ISREG(found.st_mode):
        what = kind_of(found.st_mode) or "no file"
        hint = "name a file; where - is taken, it means standard output"
        raise UsageError(f"{shown} is {what}, not a file", hint=hint)
    if inputs is not None and inputs.holds(real, found):
        raise _is_input(shown)
    if not force:
        raise UsageError(f"{shown} exists and was left as it is", hint="--force overwrites it")
    if not os.access(name, os.W_OK):
        raise UsageError(f"cannot write {shown}: it is read-only", hint="name another file")
    _refuse_folder(shown, Path(real).parent)
    return Target(Path(name), Path(real), force)


def _is_input(shown: str) -> UsageError:
    hint = "name another file; --force does not change this"
    return UsageError(f"{shown} is an input of this command and was left as it is", hint=hint)


def _refuse_folder(shown: str, folder: Path) -> None:
    if not folder.is_dir():
        reason = f"there is no folder {shorten(str(folder), 200)}"
    elif not os.access(folder, os.W_OK | os.X_OK):
        reason = f"the folder {shorten(str(folder), 200)} is read-only"
    else:
        return
    raise UsageError(f"cannot write {shown}: {reason}", hint="is the folder there, and yours?")


@dataclass
class Targets:
    """The files that one command is to write: each is one, however it is spelled.

    Attributes:
        inputs: What the command reads.
        force: Whether files that exist may be replaced.
    """

    inputs: Inputs = field(default_factory=Inputs)
    force: bool = False
    _taken: dict[object, str] = field(default_factory=dict)

    def claim(self, path: StrPath, option: str) -> Target:
        """Say that an option writes a file.

        Raises:
            UsageError: As ``target``, with the option, or another option writes the same file.
        """
        try:
            found = target(path, force=self.force, inputs=self.inputs)
        except UsageError as error:
            raise UsageError(f"{option}: {error.message}", hint=error.hint) from None
        keys: list[object] = [str(found.real)]
        with contextlib.suppress(OSError):
            here = found.real.stat()
            keys.append((here.st_dev, here.st_ino))
        other = next((self._taken[key] for key in keys if key in self._taken), None)
        if other is not None:
            name = shorten(os.fspath(path), 200)
            reason = f"{option}: {name} is named twice, by {other} too"
            raise UsageError(reason, hint="one file for each")
        self._taken.update(dict.fromkeys(keys, option))
        return found


class _Raw(io.FileIO):
    """A file whose errors name what it is to become, and which counts its bytes."""

    def __init__(self, descriptor: int, shown: str) -> None:
        super().__init__(descriptor, "wb")
        self._shown = shown
        self.count = 0

    def write(self, data: object) -> int:
        try:
            done = super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._shown) from None
        self.count += done or 0
        return done


class Draft:
    """A file in the making, a context: in place when it is complete, or gone without a trace.

    Args:
        goal: What ``target`` gave.

    Raises:
        OSError: On entry or exit; its ``filename`` is the target's. What was there is unchanged.
    """

    def __init__(self, goal: Target) -> None:
        self.goal = goal
        self._raw: _Raw | None = None
        self._file: io.BufferedWriter | io.TextIOWrapper | None = None
        # A name of its own length: that of the target may be as long as a name can be.
        self._draft = goal.real.parent / f".planguard-{os.getpid()}-{os.urandom(4).hex()}.tmp"

    def __enter__(self) -> Self:
        """Make the draft beside the file, with the rights of the file it replaces."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._named():
            descriptor = os.open(self._draft, flags, 0o666)
        self._raw = _Raw(descriptor, str(self.goal.path))
        with contextlib.suppress(OSError):
            old = self.goal.real.stat()
            with contextlib.suppress(OSError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
        self._file = io.BufferedWriter(self._raw)
        return self

    @property
    def binary(self) -> IO[bytes]:
        """Where bytes are written."""
        return cast("IO[bytes]", self._file)

    def text(self) -> IO[str]:
        """Return where UTF-8 text is written instead of bytes; line ends are as they are given."""
        text = io.TextIOWrapper(cast("io.BufferedWriter", self._file), "utf-8", newline="")
        self._file = text
        return text

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put the file in place, or remove the draft when something went wrong."""
        try:
            if kind is None:
                with self._named():
                    self._finish()
        finally:
            assert self._file is not None  # noqa: S101  set on entry
            with contextlib.suppress(OSError):
                self._file.close()
            with contextlib.suppress(OSError):
                self._draft.unlink(missing_ok=True)

    def _finish(self) -> None:
        """Flush, sync, check and rename."""
        assert self._file is not None  # noqa: S101  set on entry
        assert self._raw is not None  # noqa: S101  set on entry
        self._file.flush()
        os.fsync(self._raw.fileno())
        if os.fstat(self._raw.fileno()).st_size != self._raw.count:
            raise OSError(errno.EIO, "the file is not as long as what was written into it")
        self._file.close()
        if was_read(self.goal.real):
            raise _is_input(shorten(str(self.goal.path), 200))
        if not self.goal.force:
            self._place_new()
        else:
            self._draft.replace(self.goal.real)
        # So that the name, too, survives a crash of the machine; some systems cannot.
        with contextlib.suppress(OSError):
            folder = os.open(self.goal.real.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _place_new(self) -> None:
        """Put the file where none is, also if one has appeared meanwhile: a link never replaces."""
        try:
            os.link(self._draft, self.goal.real)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            os.close(os.open(self.goal.real, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            self._draft.replace(self.goal.real)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Let an error name the file that was meant."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.goal.path)) from None


def write(goal: StrPath | Target, data: bytes | str | Iterable[bytes]) -> None:
    """Write a file whole or not at all.

    Args:
        goal: What ``target`` gave, or a path whose file may be replaced.
        data: The bytes as they are, or UTF-8 text.

    Raises:
        UsageError: As ``target``.
        OSError: It cannot be written; what was there is unchanged.
    """
    with Draft(goal if isinstance(goal, Target) else target(goal)) as draft:
        if isinstance(data, str):
            data = data.encode()
        if isinstance(data, bytes):
            draft.binary.write(data)
        else:
            draft.binary.writelines(data)


def write_packed(goal: StrPath | Target, pieces: Iterable[bytes]) -> None:
    """Write a file as ``write`` does, compressed if its name ends in ``.gz``.

    No time stamp goes into it: equal plans give equal files.

    Raises:
        UsageError: As ``target``.
        OSError: It cannot be written; what was there is unchanged.
    """
    found = goal if isinstance(goal, Target) else target(goal)
    if found.path.suffix != ".gz":
        write(found, pieces)
        return
    import gzip  # only here: most commands compress nothing

    with Draft(found) as draft, gzip.GzipFile("", "wb", 6, draft.binary, mtime=0) as packed:
        packed.writelines(pieces)
