"""Forks that stand at the head of a block and run its body when they are told to.

A ``with`` block cannot run its body twice. So each rank is a fork of the process, made at the head
of the block: it sleeps until the parent, at the block's end, wants that rank; then it runs the
body, sends its log and ends without leaving the block.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from planguard.capture.processes import refuse_cuda
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass
class _Child:
    pid: int
    go: int
    result: int


class Forks:
    """The sleeping ranks of one block.

    Attributes:
        child: True in a process that plays a rank for the parent.
        waiting: Ranks that can be played.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self.child = False
        self.waiting: dict[int, _Child] = {}
        self._ranks = list(ranks)
        self._result = -1

    def fork(self) -> int | None:
        """Fork every rank. Returns None in the parent, and in a child, once it is told, its rank.

        Raises:
            UsageError: If this process already uses CUDA, which does not survive a fork.
        """
        refuse_cuda()
        for rank in self._ranks:
            go_read, go_write = os.pipe()
            result_read, result_write = os.pipe()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # see processes._launch
                pid = os.fork()
            if pid == 0:
                os.close(go_write)
                os.close(result_read)
                self._sleep(go_read, result_write)
                return rank
            os.close(go_read)
            os.close(result_write)
            self.waiting[rank] = _Child(pid, go_write, result_read)
        return None

    def _sleep(self, go: int, result: int) -> None:
        """Wait in a child for the word to start; end when the parent goes away or needs it not."""
        for sibling in self.waiting.values():
            os.close(sibling.go)
            os.close(sibling.result)
        self.waiting = {}
        self.child = True
        self._result = result
        if os.read(go, 1) != b"g":
            os._exit(0)
        os.close(go)
        silence()  # the parent's own run of the body has printed all this
        import torch

        torch.set_num_threads(1)  # a forked child must not enter the parent's thread pool

    def answer(self, error: BaseException | None, log: Callable[[], bytes]) -> NoReturn:
        """Send the log, or why there is none, and end this child."""
        with contextlib.suppress(BrokenPipeError):
            try:
                if error is not None:
                    raise error
                data = b"+" + log()
            except BaseException as problem:  # noqa: BLE001 - whatever it is, the parent reports it
                frames = "".join(traceback.format_exception(problem))[-4000:]
                data = b"-" + f"{type(problem).__name__}: {problem}\0{frames}".encode()
            while data:
                data = data[os.write(self._result, data) :]
        os._exit(0)

    def play(self, ranks: Sequence[int], *, timeout: float, jobs: int) -> dict[int, bytes]:
        """Let some ranks run the body, ``jobs`` at a time, and return what each sends.

        Raises:
            UsageError: If a rank raises, dies or does not finish in ``timeout`` seconds.
        """
        todo = list(ranks)
        running: dict[int, tuple[float, bytearray]] = {}
        found: dict[int, bytes] = {}
        while todo or running:
            while todo and len(running) < jobs:
                rank = todo.pop(0)
                os.write(self.waiting[rank].go, b"g")
                running[rank] = (time.monotonic() + timeout, bytearray())
            for rank in self._arrived(running, timeout):
                found[rank] = _unpacked(rank, bytes(running.pop(rank)[1]))
        return found

    def _arrived(self, running: dict[int, tuple[float, bytearray]], timeout: float) -> list[int]:
        """Read what there is; return the ranks that have sent everything."""
        pause = max(0.0, min(deadline for deadline, _ in running.values()) - time.monotonic())
        pipes = {self.waiting[rank].result: rank for rank in running}
        ready, _, _ = select.select(list(pipes), [], [], pause)
        done = []
        for pipe in ready:
            data = os.read(pipe, 1 << 16)
            running[pipes[pipe]][1].extend(data)
            if not data:
                done.append(pipes[pipe])
        late = [r for r, (deadline, _) in running.items() if deadline <= time.monotonic()]
        if late and not done:
            raise UsageError(f"rank {late[0]} did not finish within {timeout:g} s")
        return done

    def close(self) -> None:
        """End every child that is still there."""
        if self.child:
            return
        for child in self.waiting.values():
            os.close(child.go)
            os.close(child.result)
        for child in self.waiting.values():
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                _end(child.pid)
        self.waiting = {}


def silence() -> None:
    """Send what this process prints to nowhere."""
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)


def _end(pid: int) -> None:
    """Give a child a moment to end by itself, then kill it; only processes made here."""
    for _ in range(50):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _unpacked(rank: int, data: bytes) -> bytes:
    if data[:1] == b"+":
        return data[1:]
    if not data:
        raise UsageError(f"rank {rank} could not be captured: its process ended with no answer")
    message, _, trace = data[1:].decode(errors="replace").partition("\0")
    raise UsageError(
        f"rank {rank} could not be captured: {message}",
        hint=trace.strip() or "run the body on its own first",
    )
