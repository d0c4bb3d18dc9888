"""Many inputs, read by copies of this process beside it.

All processes take slices of the inputs from one pipe, in order, so none waits for another that is
slow. A copy writes what it read into a pipe of its own and ends. The answer is that of one process
reading alone: parts come in the order of the inputs. A file that cannot be read is a part, too.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.garbage import no_collection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.audit.readers.files import Input
    from planguard.audit.readers.part import Part

MANY = 64
"""Inputs from which several processes read."""
SLICES = 128
"""Slices of the inputs; one byte names one."""
MOST = 8
"""Processes at most: they share one disk and one memory."""

Slices = dict[int, "list[Part]"]


class HelperLostError(Exception):
    """A process that read recordings ended before it was done: memory, or somebody's signal."""


def may_fork() -> bool:
    """Tell whether a copy of this process is safe and of use: no thread may hold a lock."""
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        return False
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return False


@dataclass(frozen=True)
class Helper:
    """A copy of this process: its number, and the end of the pipe it writes to."""

    pid: int
    pipe: int


class Helpers:
    """Reads inputs in this process and in copies of it, which start at once.

    Args:
        inputs: What to read.
        read: Reads one.
        count: Processes, this one included; one for each processor if None.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        read: Callable[[Input], list[Part]],
        count: int | None = None,
    ) -> None:
        size = max(1, -(-len(inputs) // SLICES))
        self.slices = [inputs[place : place + size] for place in range(0, len(inputs), size)]
        self.read = read
        self.queue, end = os.pipe()
        os.write(end, bytes(range(len(self.slices))))
        os.close(end)
        self.helpers: list[Helper] = []
        known = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(min(count or len(os.sched_getaffinity(0)), MOST) - 1):
                self.helpers.append(self._start())
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, known)

    def parts(self) -> list[Part]:
        """Take part in the reading; return what all inputs say, in their order.

        Raises:
            HelperLostError: A process died.
        """
        with no_collection():
            try:
                found = self._take(None)
                for helper in self.helpers:
                    found |= _receive(helper.pipe)
            finally:
                self.close()
        if len(found) < len(self.slices):
            raise HelperLostError
        return [part for place in sorted(found) for part in found[place]]

    def close(self) -> None:
        """End what still runs."""
        helpers, self.helpers = self.helpers, []
        for helper in helpers:
            os.close(helper.pipe)
            # Where the caller leaves dead processes to the system, it may be gone already.
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(helper.pid, signal.SIGKILL)
                os.waitpid(helper.pid, 0)
        if self.queue >= 0:
            os.close(self.queue)
            self.queue = -1

    def _start(self) -> Helper:
        pipe, end = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid:
            os.close(end)
            return Helper(pid, pipe)
        # The copy. A pipe whose reading end it holds itself would never tell that the parent died.
        try:
            os.close(pipe)
            for helper in self.helpers:
                os.close(helper.pipe)
            with no_collection(), os.fdopen(end, "wb") as file:
                pickle.dump(self._take(parent), file, 5)
            os._exit(0)  # freeing everything one by one takes its time
        finally:
            os._exit(1)

    def _take(self, parent: int | None) -> Slices:
        """Read slices until none is left, or the parent is gone."""
        found: Slices = {}
        while token := os.read(self.queue, 1):
            if parent is not None and os.getppid() != parent:
                break
            found[token[0]] = [part for one in self.slices[token[0]] for part in self.read(one)]
        return found


def _receive(pipe: int) -> Slices:
    with os.fdopen(os.dup(pipe), "rb") as file:
        data = file.read()
    try:
        found: Slices = pickle.loads(data)  # noqa: S301  a copy of this process wrote it
    except (EOFError, pickle.UnpicklingError):
        raise HelperLostError from None
    return found
