"""Runs one short-lived process per rank, because a process plays one rank only once."""

from __future__ import annotations

import math
import multiprocessing
import os
import select
import signal
import sys
import time
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from planguard.errors import UsageError

_FORKED = "pytorch/wiki/Autograd-and-Fork"
"""What the autograd engine names where its device threads were started before a fork
(torch/csrc/autograd/engine.cpp, ``in_bad_autograd_fork``). It tells nothing of the job."""
_TRACED = "Backend doesn't support create a new Stream"
"""What a device says that FakeTensorMode made up (c10/core/impl/DeviceGuardImplInterface.h)."""

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class RankFailure:
    """A rank whose process raised, died or ran out of time."""

    rank: int
    message: str
    trace: str = ""


@dataclass
class _Running:
    rank: int
    process: Any
    pipe: Connection
    deadline: float = field(default=0.0)


def run_ranks(
    ranks: Sequence[int],
    task: Callable[[int], bytes],
    *,
    timeout: float,
    start: str = "fork",
    jobs: int | None = None,
) -> dict[int, bytes]:
    """Run ``task(rank)`` in a process of its own for every rank and return what each returns.

    Args:
        ranks: Ranks to run.
        task: What a process does; it must be picklable with ``start="spawn"``.
        timeout: Seconds per rank.
        start: ``fork`` runs closures and lambdas; ``spawn`` works after CUDA was used.
        jobs: Processes at a time; by default one per CPU.

    Raises:
        UsageError: If a rank fails; the message is the rank's own, with its last frames.
    """
    context = _context(start)
    limit = jobs or max(1, len(os.sched_getaffinity(0)))
    todo = list(ranks)
    running: list[_Running] = []
    done: dict[int, bytes] = {}
    try:
        while todo or running:
            while todo and len(running) < limit:
                running.append(_launch(context, todo.pop(0), task, timeout))
            for entry in _ready(running):
                running.remove(entry)
                done[entry.rank] = _collect(entry, timeout)
    finally:
        for entry in running:
            _stop(entry)
    return done


def silence() -> None:
    """Send what this process prints to nowhere."""
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)


def _context(start: str) -> Any:
    if start not in multiprocessing.get_all_start_methods() or start == "forkserver":
        raise UsageError(f"cannot start processes by {start!r}", hint="use 'fork' or 'spawn'")
    return multiprocessing.get_context(start)


def _launch(context: Any, rank: int, task: Callable[[int], bytes], timeout: float) -> _Running:
    parent, child = context.Pipe(duplex=False)
    sys.stdout.flush()
    sys.stderr.flush()
    process = context.Process(target=_child, args=(child, task, rank), daemon=True)
    with warnings.catch_warnings():
        # Python 3.12 warns about threads in the parent. The child runs one task and leaves by
        # os._exit; it uses no lock that a thread of the parent could hold, and one torch thread.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    child.close()
    return _Running(rank, process, parent, time.monotonic() + timeout)


def _child(pipe: Connection, task: Callable[[int], bytes], rank: int) -> None:
    try:
        pipe.send_bytes(b"+" + task(rank))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent reports it
        frames = "".join(traceback.format_exception(error))[-4000:]
        pipe.send_bytes(b"-" + f"{type(error).__name__}: {error}\0{frames}".encode())
    finally:
        pipe.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _ready(running: list[_Running]) -> list[_Running]:
    pause = max(0.0, min(entry.deadline for entry in running) - time.monotonic())
    ready = wait([entry.pipe for entry in running], timeout=pause)
    now = time.monotonic()
    return [entry for entry in running if entry.pipe in ready or entry.deadline <= now]


def _collect(entry: _Running, timeout: float) -> bytes:
    try:
        if not entry.pipe.poll(0):
            raise _failed(RankFailure(entry.rank, f"did not finish within {timeout:g} s"))
        answer = entry.pipe.recv_bytes()
    except EOFError:
        entry.process.join(5)
        message = f"its process ended with code {entry.process.exitcode} and no answer"
        raise _failed(RankFailure(entry.rank, message)) from None
    finally:
        _stop(entry)
    if answer[:1] == b"+":
        return answer[1:]
    message, _, trace = answer[1:].decode(errors="replace").partition("\0")
    raise _failed(RankFailure(entry.rank, message, trace))


def _failed(failure: RankFailure) -> UsageError:
    if is_refused(failure.message):
        return refused_gradients('trace it with start="spawn"')
    return UsageError(
        f"rank {failure.rank} could not be captured: {failure.message}",
        hint=failure.trace.strip() or "run the body on its own first",
    )


def _stop(entry: _Running) -> None:
    entry.pipe.close()
    entry.process.join(1)
    if entry.process.is_alive():
        entry.process.kill()
        entry.process.join(5)


def ended(pid: int, patience: float) -> int | None:
    """Wait for a child that is about to end, kill it where it does not; return its exit code.

    Args:
        pid: The child.
        patience: Seconds in which it may end by itself.

    Returns:
        Its exit code, negative for a signal; None if it was killed here or had been waited for.
    """
    end = time.monotonic() + patience
    with suppress(ChildProcessError):
        while not (found := os.waitpid(pid, os.WNOHANG))[0]:
            if (left := end - time.monotonic()) <= 0:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return None
            _await_end(pid, left)
        return os.waitstatus_to_exitcode(found[1])
    return None


def _await_end(pid: int, patience: float) -> None:
    """Return once a child has ended, or some time before; at the latest when patience is over."""
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):  # no Linux, or one before 5.3
        time.sleep(min(patience, 0.002))
        return
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.poll(math.ceil(patience * 1000))
    finally:
        os.close(handle)


def refuse_cuda() -> None:
    """Refuse to fork a process whose CUDA state would not survive it.

    Raises:
        UsageError: This process has used CUDA.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise UsageError(
            "this process already uses CUDA, which does not survive a fork",
            hint="start it before anything touches the device",
        )


def start_autograd() -> None:
    """Let torch's autograd engine start while it can be forked, where it otherwise could not.

    The engine starts with the first gradient of a process, with a thread for each device there is,
    and does not work in a fork once it has such threads. Where a build for CUDA finds no device,
    FakeTensorMode, and with it ``torch.compile`` and every tracer, makes one up for the rest of the
    process (``torch._C._ensureCUDADeviceGuardSet``). A gradient before that settles it; one behind
    it would start the threads, and is left to the program.
    """
    torch = sys.modules.get("torch")
    if torch is None or torch.version.cuda is None or torch.cuda.device_count():
        return
    try:
        torch.Stream(device="cuda:0")
    except RuntimeError as error:
        if _TRACED in str(error):
            return
    with torch.inference_mode(mode=False), torch.enable_grad():
        one = torch.ones(1, device="cpu", requires_grad=True)
        torch.autograd.grad(one.sum(), one)


def is_refused(said: str) -> bool:
    """Return whether torch refused a gradient because its process is a fork."""
    return _FORKED in said


def refused_gradients(way: str) -> UsageError:
    """Return the error of a fork whose gradient torch refused, with a way around it."""
    return UsageError(
        "this build of torch computes no gradients in a fork of a process that has computed "
        "some, so that no other rank can be played here",
        hint=f"check before the first backward, or {way}",
    )
