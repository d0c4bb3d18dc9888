"""Box: a worker process, and what becomes of the plan it was at when it ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

from planguard import kernels
from planguard.errors import InternalError
from planguard.screen.tasks import Answer, Task, decode_answers, encode, lost
from planguard.screen.worker import HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START_SECONDS = 120.0
"""What starting Python and importing the engine may take."""
MAX_STARTS = 50
"""Workers in a row that may end before they are ready."""


class DiedError(Exception):
    """The process ended in the middle of a task.

    Attributes:
        reason: What ended it.
        is_timeout: Whether it was ended because the plan took too long.
    """

    def __init__(self, reason: str, *, is_timeout: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_timeout = is_timeout


class NotStartedError(Exception):
    """The process ended before it was ready for a task."""


class Box:
    """One worker process: ``python -m planguard.screen.worker``."""

    def __init__(self) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)  # noqa: PTH109
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "planguard.screen.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is the caller's to handle
            bufsize=0,
        )
        self._is_ready = False
        self.has_ended = False

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def run(self, tasks: Sequence[Task]) -> Iterator[Answer]:
        """Yield the answers of tasks, in their order.

        Raises:
            NotStartedError: The process ended before it took a task.
            DiedError: The process ended, or was ended, in the middle of a task.
        """
        if not self._is_ready:
            try:
                self._read(HEAD.size, time.monotonic() + START_SECONDS, START_SECONDS)
            except DiedError as died:
                raise NotStartedError(died.reason) from None
            self._is_ready = True
        self._send(encode(list(tasks)))
        for task in tasks:
            seconds = task.limits.seconds
            begun = time.monotonic()
            said = self._receive(begun + seconds if seconds else None, seconds)
            kernels.taken(time.monotonic() - begun)  # a worker has no stderr to say it on
            yield said
            if said.last:
                self.close()
                return

    def close(self) -> None:
        """End the process."""
        self.has_ended = True
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.close()

    def kill(self) -> None:
        """Kill the process; whoever reads its answers closes it."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def _send(self, body: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101  asked for with PIPE
        view = memoryview(HEAD.pack(len(body)) + body)
        try:
            while view:
                view = view[self._process.stdin.write(view) :]
        except OSError:
            raise DiedError(self._reason()) from None

    def _receive(self, deadline: float | None, seconds: float) -> Answer:
        head = self._read(HEAD.size, deadline, seconds)
        body = self._read(HEAD.unpack(head)[0], deadline, seconds)
        return decode_answers(body)[0]

    def _read(self, size: int, deadline: float | None, seconds: float) -> bytes:
        assert self._process.stdout is not None  # noqa: S101  asked for with PIPE
        parts: list[bytes] = []
        while size:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], wait)[0]:
                self.close()
                raise DiedError(f"it took more than {seconds:g} s", is_timeout=True)
            part = self._process.stdout.read(size)
            if not part:
                raise DiedError(self._reason())
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _reason(self) -> str:
        code = self._process.wait()
        self.close()
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"its worker was ended by {signal.Signals(-code).name}"
        return f"its worker ended with code {code}"


class Boxes:
    """Runs tasks in one box after another: a new one whenever one ends."""

    def __init__(self) -> None:
        self.box: Box | None = None
        self._is_shut = False

    def run(self, tasks: Sequence[Task]) -> Iterator[Answer]:
        """Yield one answer per task, in their order; a lost task is an answer.

        A plan that took too long is given up at once. A worker that dies may have been killed by
        somebody who did not mean the plan, so the plan is tried again in a new one.
        """
        pending = deque(tasks)
        deaths = starts = 0
        while pending and not self._is_shut:
            if self.box is None or self.box.has_ended:
                self.box = Box()
                if self._is_shut:  # in the meantime, by somebody who saw no box to kill
                    return
            try:
                for said in self.box.run(pending.copy()):
                    pending.popleft()
                    deaths = starts = 0
                    yield said
            except NotStartedError as ended:
                self.close()
                starts += 1
                if starts >= MAX_STARTS:
                    raise InternalError(f"no worker can be started: {ended}") from None
            except DiedError as died:
                self.close()
                if self._is_shut:
                    return
                deaths += 1
                if died.is_timeout or deaths >= pending[0].limits.attempts:
                    times = "" if died.is_timeout else f", {deaths} times"
                    yield lost(pending.popleft(), died.reason + times)
                    deaths = 0

    def close(self) -> None:
        """End the process there is."""
        if self.box is not None:
            self.box.close()
        self.box = None

    def shut(self) -> None:
        """End the process, also in the middle of a task that another thread waits for."""
        self._is_shut = True
        if self.box is not None:
            self.box.kill()
