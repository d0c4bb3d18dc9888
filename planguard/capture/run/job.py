"""Runs the command of a dry run to its end: its own, that of a limit without progress, or Ctrl-C.

A job that hangs must not take its answer with it. torchrun gives every rank a session of its own,
so neither a process group nor the tree of processes leads to all of them once their parents have
gone; what does is a word in their environment, which every descendant inherits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.capture.run.progress import Watch
from planguard.errors import MissingPackageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TOKEN = "PLANGUARD_RECORD_TOKEN"  # noqa: S105 - the name of a variable
STALL = 300.0
"""Seconds without a record of any rank, while one of them waits, after which a job is ended."""
GRACE = 10.0
"""Seconds that ranks have to end after they were asked to."""
LOOK = 1.0
"""Seconds between two looks at the logs, at most."""


@dataclass(frozen=True)
class JobEnd:
    """How a job came to its end.

    Attributes:
        code: Exit code of the command, negative for a signal.
        signal: Signal that interrupted it here, 0 without one.
        stalled: Seconds without progress after which it was ended, None if it was not.
        ended: Processes that were still there and had to be ended.
    """

    code: int
    signal: int = 0
    stalled: float | None = None
    ended: int = 0


@dataclass
class _Signals:
    """The signals that arrived while the job ran."""

    arrived: list[int] = field(default_factory=list)

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Write down what would end this process; who ignores a signal goes on ignoring it."""
        before: dict[int, Any] = {}
        for number in map(int, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue
            with contextlib.suppress(ValueError):  # not the main thread
                before[number] = signal.signal(number, lambda got, _: self.arrived.append(got))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run_job(
    command: Sequence[str],
    environment: dict[str, str],
    folder: Path | None = None,
    *,
    stall: float = STALL,
) -> JobEnd:
    """Run a job to its end; nothing of it is left behind.

    Args:
        command: The job.
        environment: What it finds in its environment.
        folder: Where its ranks write logs that show whether it goes on; None where they do not.
        stall: Seconds without progress after which it is ended; 0 for none.

    Raises:
        UsageError: The command cannot be run.
    """
    token = uuid.uuid4().hex
    signals = _Signals()
    with signals.caught():
        process = _start(command, {**environment, TOKEN: token})
        try:
            watch = None if folder is None else Watch(folder)
            return _attend(process, token, watch, signals, stall)
        except BaseException:
            _end(process, token, signal.SIGKILL, signals)
            raise


def _start(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    # A group of its own: what a terminal or a caller sends arrives here once, and is handed on.
    # Behind a terminal that would stop the job at its first read of it.
    nothing = subprocess.DEVNULL if sys.stdin is not None and _is_terminal() else None
    try:
        return subprocess.Popen(  # noqa: S603 - the user's own command
            list(command), env=environment, stdin=nothing, process_group=0
        )
    except OSError as error:
        if Path(command[0]).name == "torchrun" and find_spec("torch") is None:
            raise MissingPackageError("torch", "torchrun") from None
        reason = f"{command[0]} cannot be run: {error.strerror}"
        raise UsageError(reason, hint="is it installed?") from None


def _is_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False


def _attend(
    process: subprocess.Popen[bytes],
    token: str,
    watch: Watch | None,
    signals: _Signals,
    stall: float,
) -> JobEnd:
    """Wait for the end of the job."""
    last = time.monotonic()
    pause = min(LOOK, stall / 4) if stall else LOOK
    looked = last
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return JobEnd(process.wait(timeout=min(pause, 0.25)))
        if signals.arrived:
            number = signals.arrived[0]
            ended = _end(process, token, number, signals)
            return JobEnd(process.wait(), signal=number, ended=ended)
        now = time.monotonic()
        if watch is None or now - looked < pause:
            continue
        looked = now
        if watch.has_moved() or not watch.is_waiting:
            last = now
        elif stall and now - last >= stall:
            ended = _end(process, token, signal.SIGTERM, signals)
            return JobEnd(process.wait(), stalled=stall, ended=ended)


def _end(process: subprocess.Popen[bytes], token: str, number: int, signals: _Signals) -> int:
    """Hand a signal to all of a job, wait, and kill what is left; return how many that were.

    A second signal from outside ends the waiting.
    """
    seen = len(signals.arrived)
    _tell(process, token, number)
    until = time.monotonic() + (0.0 if number == signal.SIGKILL else GRACE)
    while time.monotonic() < until and len(signals.arrived) == seen:
        if process.poll() is not None and not processes_of(token):
            return 0
        time.sleep(0.05)
    killed: set[int] = set()
    until = time.monotonic() + GRACE  # what hangs in the kernel cannot be waited for
    while time.monotonic() < until:
        left = processes_of(token)
        if not left and process.poll() is not None:
            break
        killed.update(left)
        _tell(process, token, signal.SIGKILL)
        time.sleep(0.02)
    return len(killed)


def _tell(process: subprocess.Popen[bytes], token: str, number: int) -> None:
    """Send a signal to every process of the job, to each once."""
    found = processes_of(token)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    if process.pid not in found and process.poll() is None:
        # It, or what it started, has an environment of its own: what it shares is the group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def processes_of(token: str) -> list[int]:
    """Return the processes that have a word in the environment they were started with."""
    wanted = f"{TOKEN}={token}".encode()
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found
