"""What a play writes is put back before the next one: no play decides what another one does.

A script that goes on from ``snapshot.pt`` where there is one would take another branch in each play
but the first. Files that a rank makes, changes or removes through Python, or by ``torch.save``,
after it has communicated are therefore put back before the same job is played again. What it wrote
before is data, or a cache of it; so is what is written once the rank has asked the network, and
large files: they stay. Behind the last play the files of that play stay, as behind any run.

    rank   about to write     the first one of a play claims the path and keeps what was there
    parent before a play      puts back what was kept, and removes what was not there
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PLACES = {"os.remove": 1, "os.rename": 2, "os.mkdir": 1, "os.truncate": 1, "sqlite3.connect": 1}
"""Events of Python's audit that change files, and how many paths they begin with."""
_NEVER = ("/proc/", "/dev/", "/sys/")
_MOST = 1 << 26
"""Bytes of a file that is kept."""
_PATIENCE = 5.0
"""Seconds in which another rank that claimed a path has kept what was there."""


class Journal:
    """The files of the plays of one job."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="planguard-files-"))
        self._now = threading.local()

    def watch(self, has_communicated: Callable[[], bool]) -> None:
        """Keep what this rank is about to write over; its process ends with it."""
        is_online = False

        def hear(event: str, args: tuple[Any, ...]) -> None:
            nonlocal is_online
            if event == "socket.connect" and isinstance(args[1], tuple):
                is_online = True
            if event == "open":
                writes = len(args) > 2 and (args[2] or 0) & _WRITES
            else:
                writes = event in _PLACES
            if not writes or is_online or getattr(self._now, "inside", False):
                return
            if has_communicated():
                for path in args[: _PLACES.get(event, 1)]:
                    self._about(path)

        sys.addaudithook(hear)
        self._watch_torch(lambda path: hear("open", (path, "w", os.O_WRONLY)))

    @staticmethod
    def _watch_torch(tell: Callable[[Any], None]) -> None:
        """``torch.save`` opens what it writes in C++, which no audit hears of."""
        import torch.serialization as saving

        original: Any = saving._open_zipfile_writer  # noqa: SLF001 - torch has no public way

        def opening(name: Any) -> Any:
            if isinstance(name, (str, os.PathLike)):
                tell(os.fspath(name))
            return original(name)

        saving._open_zipfile_writer = opening  # noqa: SLF001 - same

    def _about(self, path: object) -> None:
        if not isinstance(path, (str, bytes)):
            return  # a file that is open already
        self._now.inside = True
        try:
            name = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links stay links
            if not name.startswith((*_NEVER, str(self._folder))) and "__pycache__" not in name:
                self._keep(name)
        except OSError:
            pass  # it cannot be kept: a file that others may not read
        finally:
            self._now.inside = False

    def _keep(self, name: str) -> None:
        """Keep what is at a path, unless a rank of this play has kept it; wait until it has."""
        entry = self._folder / hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()
        try:
            os.close(os.open(entry, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            until = time.monotonic() + _PATIENCE
            while not entry.stat().st_size and time.monotonic() < until:
                time.sleep(0.005)
            return
        was = "nothing"
        if os.path.islink(name) or not os.path.lexists(name):  # noqa: PTH114 - as it is named
            was = "nothing" if not os.path.lexists(name) else "left"
        elif os.path.isdir(name):  # noqa: PTH112 - same
            was = "left"
        elif os.path.getsize(name) <= _MOST:  # noqa: PTH202 - same
            shutil.copy2(name, entry.with_suffix(".copy"))
            was = "copy"
        else:
            was = "left"
        entry.write_text(json.dumps([name, was]))

    def put_back(self) -> None:
        """Put the files back as they were before the last play."""
        for name, was, copy in sorted(
            self._entries(), reverse=True
        ):  # what lies inside comes first
            with contextlib.suppress(OSError):
                if was == "copy":
                    os.makedirs(os.path.dirname(name), exist_ok=True)  # noqa: PTH103, PTH120 - same
                    shutil.copy2(copy, name)
                elif was == "nothing" and os.path.isdir(name):  # noqa: PTH112 - same
                    os.rmdir(name)  # noqa: PTH106 - what nobody told of stays
                elif was == "nothing":
                    os.unlink(name)  # noqa: PTH108 - same
        for one in self._folder.iterdir():
            one.unlink()

    def _entries(self) -> Iterator[tuple[str, str, Path]]:
        for one in self._folder.iterdir():
            if one.suffix != ".copy" and one.stat().st_size:
                name, was = json.loads(one.read_text())
                yield name, was, one.with_suffix(".copy")

    def close(self) -> None:
        """Forget what was kept."""
        shutil.rmtree(self._folder, ignore_errors=True)
