"""What one rank's machine is: its name, how much it has of what, and what other programs say there.

Nodes of one job are seldom bought and installed on one day. A count of processors, free memory, the
load, or the output of ``nvidia-smi`` or ``git`` on one of them need not be that of the others.
"""

from __future__ import annotations

import importlib
import io
import os
import platform
import resource
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from planguard.capture.values.otherwise import (
    other_fact,
    other_host,
    other_text,
    other_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

HOST, FACT, TOLD = "the host's name", "what the machine has", "what another program says"
_NAMES = ((socket, "gethostname"), (socket, "getfqdn"), (platform, "node"), (os, "uname"))
_FACTS = {
    "os": (
        "cpu_count", "process_cpu_count", "getloadavg", "sched_getaffinity", "sysconf", "statvfs",
    ),
    "multiprocessing": ("cpu_count",),
    "psutil": (
        "virtual_memory", "swap_memory", "cpu_count", "cpu_percent", "getloadavg", "disk_usage",
        "net_io_counters", "disk_io_counters", "cpu_freq", "cpu_times_percent", "boot_time",
    ),
}  # fmt: skip
_THREADS = ("get_num_threads", "get_num_interop_threads")
"""Of torch, which takes the number of processors."""
_PROCESS = ("memory_info", "memory_full_info", "memory_percent", "cpu_percent", "num_threads")
"""Of ``psutil.Process``."""
SYSTEM = ("/proc/", "/sys/", "/etc/hostname", "/etc/machine-id")
"""Files in which a machine tells of itself."""


def _loaded() -> Iterator[tuple[Any, str]]:
    for home, names in _FACTS.items():
        try:
            module = importlib.import_module(home)
        except ImportError:  # psutil is not everywhere
            continue
        yield from ((module, name) for name in names)
        if home == "psutil":
            yield from ((module.Process, name) for name in _PROCESS)


_ASKED = tuple(_loaded())
"""Loaded once: played ranks are forks, and each would load psutil."""
_TOLD = ("run", "check_output", "getoutput", "getstatusoutput", "call")
"""Of ``subprocess``."""


class Host:
    """The machine of one rank.

    Attributes:
        name: What it is called where the rank is odd; None for another name.
        named: What tests name; None for a machine that has more, or less.
    """

    def __init__(
        self,
        rank: int,
        is_odd: Callable[[str, str], bool],
        place: Callable[[FrameType], str | None],
    ) -> None:
        self._is_more = bool(rank.bit_count() % 2)
        self._is_odd = is_odd
        self._place = place
        self.name: str | None = None
        self.named: object = None

    def questions(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return every function that asks: owner, name, and what makes the one in its place."""
        for owner, name in _NAMES:
            yield owner, name, lambda given: self._other(given, HOST, self._called)
        for module, name in _ASKED:
            yield module, name, self._fact
        yield resource, "getrusage", self._fact
        torch = sys.modules.get("torch")
        yield from ((torch, name, self._fact) for name in _THREADS)
        for name in _TOLD:
            yield subprocess, name, lambda given: self._other(given, TOLD, _said)
        yield os, "system", lambda given: self._other(given, TOLD, _said)
        yield os, "popen", lambda given: self._other(given, TOLD, _written)

    def _fact(self, original: Any) -> Any:
        return self._other(original, FACT, self._changed)

    def _changed(self, found: Any) -> Any:
        return other_fact(found, is_more=self._is_more, named=self.named)

    def file(self, found: Any, place: str) -> Any:
        """Return a file in which the system tells of this machine, or of another one."""
        if not self._is_odd(FACT, place):
            return found
        with found:
            text = found.read()
        is_bytes = isinstance(text, bytes)
        other = other_text(
            os.fsdecode(text) if is_bytes else text, is_more=self._is_more, named=self.named
        )
        return io.BytesIO(os.fsencode(other)) if is_bytes else io.StringIO(other)

    def _called(self, found: Any) -> Any:
        return other_host(found, self.name)

    def _other(self, original: Any, kind: str, change: Callable[[Any], Any]) -> Any:
        def asked(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            place = self._place(sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
            return found if place is None or not self._is_odd(kind, place) else change(found)

        return asked


def _said(found: Any) -> Any:
    """Return what another program could say, or how it could end."""
    if isinstance(found, subprocess.CompletedProcess):
        streams = other_words(found.stdout), other_words(found.stderr)
        return subprocess.CompletedProcess(found.args, _ended(found.returncode), *streams)
    if isinstance(found, tuple):
        return _ended(found[0]), other_words(found[1])
    return _ended(found) if isinstance(found, int) else other_words(found)


def _written(found: Any) -> Any:
    """Return what could be read from another program."""
    if not found.readable():
        return found
    with found:
        return io.StringIO(other_words(found.read()))


def _ended(code: int) -> int:
    return 0 if code else 1
