"""What one rank's machine is: its name, how much it has of what, and what other programs say there.

Nodes of one job are seldom bought and installed on one day. A count of processors, free memory, the
load, or the output of ``nvidia-smi`` or ``git`` on one of them need not be that of the others.
"""

from __future__ import annotations

import getpass
import importlib
import io
import locale
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
_NAMES = (
    (socket, "gethostname"), (socket, "getfqdn"), (platform, "node"), (os, "uname"),
    (platform, "release"), (platform, "version"), (platform, "machine"), (platform, "processor"),
    (platform, "platform"), (getpass, "getuser"), (os, "getlogin"),
    (socket, "gethostbyname"), (socket.socket, "getsockname"), (locale, "getpreferredencoding"),
)  # fmt: skip
"""Words that a machine says of itself; of a tuple the text in it."""
_FACTS = {
    "os": (
        "cpu_count", "process_cpu_count", "getloadavg", "sched_getaffinity", "sysconf", "statvfs",
        "getpriority", "nice", "times", "isatty",
    ),
    "multiprocessing": ("cpu_count",),
    "psutil": (
        "virtual_memory", "swap_memory", "cpu_count", "cpu_percent", "getloadavg", "disk_usage",
        "net_io_counters", "disk_io_counters", "cpu_freq", "cpu_times", "cpu_times_percent",
        "boot_time", "pids", "users", "net_connections", "net_if_addrs", "disk_partitions",
        "sensors_temperatures",
    ),
    "gc": ("get_count", "get_objects", "collect"),
    "sys": ("getrefcount", "getallocatedblocks"),
    "tracemalloc": ("get_traced_memory",),
    "threading": ("active_count", "enumerate"),
    "shutil": ("get_terminal_size",),
    "socket": ("getaddrinfo", "if_nameindex"),
}  # fmt: skip
_THREADS = ("get_num_threads", "get_num_interop_threads")
"""Of torch, which takes the number of processors."""
_PROCESS = (
    "memory_info", "memory_full_info", "memory_percent", "cpu_percent", "num_threads", "num_fds",
    "cpu_times", "open_files", "children", "create_time", "nice",
)  # fmt: skip
"""Of ``psutil.Process``."""
_DEVICE = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
    "mem_get_info", "utilization", "temperature", "power_draw", "clock_rate", "memory_usage",
)  # fmt: skip
"""Of ``torch.cuda``: how full, busy and warm a device is."""
_FULL = 1 << 40
"""Bytes, or degrees, of a device that is full, or hot."""
_ELSEWHERE = "127.0.0.2"
"""Address of a host that has none here."""
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
            yield owner, name, lambda given: self._other(given, HOST, self.called)
        for module, name in _ASKED:
            yield module, name, self.fact
        yield resource, "getrusage", self.fact
        torch = sys.modules.get("torch")
        yield from ((torch, name, self.fact) for name in _THREADS)
        kind = sys.modules.get("torch.backends.cpu")
        yield kind, "get_cpu_capability", lambda given: self._other(given, HOST, self.called)
        cuda = getattr(torch, "cuda", None)
        yield from ((cuda, name, self._device) for name in _DEVICE)
        yield resource, "getrlimit", self.fact

    def telling(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return what runs another program, in the same way."""
        for name in _TOLD:
            yield subprocess, name, lambda given: self._other(given, TOLD, self._said)
        process = subprocess.Popen
        yield process, "communicate", lambda given: self._other(given, TOLD, self._streams)
        yield process, "wait", lambda given: self._other(given, TOLD, _ended)
        yield process, "poll", lambda given: self._other(given, TOLD, _ended)
        yield process, "__init__", self._piped
        yield os, "system", lambda given: self._other(given, TOLD, self._said)
        yield os, "popen", lambda given: self._other(given, TOLD, self._written)

    def fact(self, original: Any) -> Any:
        """Make what tells how much this machine has of something."""
        return self._other(original, FACT, self._changed)

    def _device(self, original: Any) -> Any:
        return self._other(original, FACT, self._filled)

    def _filled(self, found: Any) -> Any:
        """Return how full another device is: by what a test names, else more than any, or empty."""
        named = self.named if isinstance(self.named, int | float) else None
        full = (_FULL if self._is_more else 0) if named is None else named
        return tuple(full for _ in found) if isinstance(found, tuple) else full

    def _changed(self, found: Any) -> Any:
        return other_fact(found, is_more=self._is_more, named=self.named)

    def counted(self, found: int) -> int:
        """Return another number that a node has, or has of something."""
        return int(self._changed(found))

    def devices(self, found: str | None) -> str:
        """Return the devices that another process sees, as in ``CUDA_VISIBLE_DEVICES``."""
        seen = (found or "").split(",") if found else []
        if isinstance(self.named, int):
            return ",".join(map(str, range(max(0, min(self.named, 64)))))
        more = [*seen, str(len(seen))]
        return ",".join(more if self._is_more or len(seen) < 2 else seen[:-1])

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

    def _piped(self, original: Any) -> Any:
        def init(process: Any, *args: Any, **options: Any) -> None:
            original(process, *args, **options)
            place = self._place(sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
            if place is not None and process.stdout is not None and self._is_odd(TOLD, place):
                process.stdout = _Piped(process.stdout, self._words)

        return init

    def _words(self, found: Any) -> Any:
        return other_words(found, self.named)

    def _said(self, found: Any) -> Any:
        """Return what another program could say, or how it could end."""
        if isinstance(found, subprocess.CompletedProcess):
            streams = self._words(found.stdout), self._words(found.stderr)
            return subprocess.CompletedProcess(found.args, _ended(found.returncode), *streams)
        if isinstance(found, tuple):
            return _ended(found[0]), self._words(found[1])
        return _ended(found) if isinstance(found, int) else self._words(found)

    def _streams(self, found: Any) -> Any:
        """Return what a program could have written, and its errors."""
        return tuple(map(self._words, found))

    def _written(self, found: Any) -> Any:
        """Return what could be read from another program."""
        if not found.readable():
            return found
        with found:
            return io.StringIO(self._words(found.read()))

    def called(self, found: Any) -> Any:
        """Return what another host is called, by what this one is."""
        return other_host(found, self.name)

    def _other(self, original: Any, kind: str, change: Callable[[Any], Any]) -> Any:
        def asked(*args: Any, **options: Any) -> Any:
            place = self._place(sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
            is_odd = place is not None and self._is_odd(kind, place)
            try:
                found = original(*args, **options)
            except socket.gaierror:
                if not is_odd:
                    raise
                found = _ELSEWHERE
            return change(found) if is_odd else found

        # What a library keeps on its functions: psutil switches caches on and off by it.
        vars(asked).update(getattr(original, "__dict__", {}))
        return asked


class _Piped:
    """What another program writes on another machine, as it is read."""

    def __init__(self, stream: Any, other: Callable[[Any], Any]) -> None:
        self._stream = stream
        self._other = other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __iter__(self) -> Iterator[Any]:
        return map(self._other, self._stream)

    def read(self, *args: Any) -> Any:
        """Read what is left."""
        return self._other(self._stream.read(*args))

    def readline(self, *args: Any) -> Any:
        """Read a line."""
        found = self._stream.readline(*args)
        return self._other(found) if found else found

    def readlines(self, *args: Any) -> list[Any]:
        """Read all lines."""
        return [*map(self._other, self._stream.readlines(*args))]


def _ended(code: int | None) -> int:
    return 1 if code == 0 else 0
