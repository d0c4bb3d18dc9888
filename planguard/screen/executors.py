"""Executor: who answers tasks. In this process, in processes of ours, or in anybody's pool.

The protocol is one method, ``run(tasks) -> Iterator[Answer]`` in order of completion, in which a
lost task is an answer and never an exception.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from planguard.errors import UsageError
from planguard.screen.box import Boxes
from planguard.screen.checking import answer
from planguard.screen.remote import answers_of, chunk_of, run_chunk
from planguard.screen.tasks import Answer, Task, lost
from planguard.screen.travel import packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Said = queue.SimpleQueue[Answer | BaseException]
CHUNK = 32
"""Tasks that travel together at most."""
LOOK_SECONDS = 5.0
"""How often a pool is asked whether it is still there."""


@runtime_checkable
class Executor(Protocol):
    """What answers tasks."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Answer]:
        """Yield one answer per task in order of completion; a lost task is an answer."""

    def close(self) -> None:
        """Let go of what was started."""


class Inline:
    """Answers in this process, without isolation: for debuggers and for plans that are trusted."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Answer]:
        """Yield the answers in order."""
        return map(answer, tasks)

    def close(self) -> None:
        """Do nothing."""


class Processes:
    """Answers in processes of this machine, each ended when its plan takes too much.

    Every process belongs to one thread for life: the system ends a process with the thread that
    started it, so that none outlives a caller who was killed.

    Args:
        jobs: Number of processes; None means as many as there are cores.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = jobs or _cores()
        self._boxes = [Boxes() for _ in range(self.jobs)]
        self._work: queue.SimpleQueue[tuple[Sequence[Task], Said] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers there are."""
        return [box.pid for boxes in self._boxes if (box := boxes.box) is not None]

    def run(self, tasks: Sequence[Task]) -> Iterator[Answer]:
        """Yield one answer per task in order of completion; a lost task is an answer."""
        said: Said = queue.SimpleQueue()
        chunks = chunks_of(tasks, self.jobs)
        for chunk in chunks:
            self._work.put((chunk, said))
        while len(self._threads) < min(self.jobs, len(chunks)):
            boxes = self._boxes[len(self._threads)]
            thread = threading.Thread(target=_serve, args=(boxes, self._work), daemon=True)
            self._threads.append(thread)
            thread.start()
        for _ in tasks:
            one = said.get()
            if isinstance(one, BaseException):
                raise one
            yield one

    def close(self) -> None:
        """End the processes, also in the middle of their tasks."""
        for boxes in self._boxes:
            boxes.shut()
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()
        for boxes in self._boxes:
            boxes.close()


def _serve(boxes: Boxes, work: queue.SimpleQueue[tuple[Sequence[Task], Said] | None]) -> None:
    while (item := work.get()) is not None:
        chunk, said = item
        try:
            for one in boxes.run(chunk):
                said.put(one)
        except BaseException as error:  # noqa: BLE001  raised again where the answers are read
            said.put(error)


class Futures:
    """Answers in anybody's pool: ``submit(function, bytes)`` gives a ``concurrent.futures`` future.

    A chunk whose worker died is submitted again. A pool that has gone is left, and this machine
    does the rest.

    Args:
        pool: A ``concurrent.futures.Executor``, or anything with its ``submit``.
        jobs: How many workers to count on when the tasks are divided.
        attempts: How often a chunk is submitted before its plans are given up.
        is_alive: Whether the pool can still answer, for pools whose futures wait for ever when
            what is behind them has gone; asked every ``LOOK_SECONDS``, and when a chunk fails.
        leave: Lets go of a pool that has gone.
    """

    def __init__(
        self,
        pool: Any,
        jobs: int | None = None,
        attempts: int = 20,
        is_alive: Callable[[], bool] | None = None,
        leave: Callable[[], None] | None = None,
    ) -> None:
        self._submit: Callable[..., Future[bytes]] = pool.submit
        self._is_alive = is_alive or (lambda: True)
        self._leave = leave or (lambda: None)
        self._jobs = jobs or getattr(pool, "_max_workers", None) or _cores()
        self._attempts = attempts
        self._rest: Processes | None = None

    def run(self, tasks: Sequence[Task]) -> Iterator[Answer]:
        """Yield one answer per task in order of completion; a lost task is an answer.

        Raises:
            UsageError: A worker cannot import PlanGuard, or has another one.
        """
        tries: Counter[int] = Counter()
        running: dict[Future[bytes], Sequence[Task]] = {}
        waiting = list(reversed(chunks_of(tasks, self._jobs)))
        looked = time.monotonic()
        while waiting or running:
            while waiting and self._rest is None:
                chunk = waiting.pop()
                try:
                    future = self._submit(run_chunk, chunk_of([packed(task) for task in chunk]))
                except Exception as error:  # noqa: BLE001  what refuses work has gone
                    waiting.append(chunk)
                    self._go_on_here(type(error).__name__)
                else:
                    running[future] = chunk
            if self._rest is not None and waiting:
                yield from self._rest.run(waiting.pop())
                continue
            failed: list[tuple[Sequence[Task], str]] = []
            for future in wait(running, LOOK_SECONDS, return_when=FIRST_COMPLETED).done:
                chunk = running.pop(future)
                try:
                    answers = answers_of(future.result())
                except UsageError:
                    raise
                except Exception as error:  # noqa: BLE001  whatever a pool raises
                    _refuse_without_planguard(error)
                    failed.append((chunk, type(error).__name__))
                else:
                    yield from answers
            if failed or time.monotonic() - looked >= LOOK_SECONDS:
                looked = time.monotonic()
                if not self._is_alive():
                    waiting += [*running.values(), *(chunk for chunk, _ in failed)]
                    running.clear()
                    self._go_on_here(failed[0][1] if failed else "it does not answer")
                    continue
            for chunk, reason in failed:
                tries[chunk[0].id] += 1
                if tries[chunk[0].id] < self._attempts:
                    waiting.append(chunk)
                    continue
                yield from (lost(task, f"its worker died: {reason}") for task in chunk)

    def _go_on_here(self, why: str) -> None:
        """Leave a pool that has gone, and say so."""
        if self._rest is not None:
            return
        self._leave()
        sys.stderr.write(f"note: the pool has gone ({why}); this machine does the rest\n")
        self._rest = Processes(min(self._jobs, _cores()))

    def close(self) -> None:
        """End what this object started itself; the pool is its owner's."""
        if self._rest is not None:
            self._rest.close()


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _refuse_without_planguard(error: Exception) -> None:
    """Say of a chunk that failed where PlanGuard cannot be imported: trying again is no use.

    Raises:
        UsageError: So it is.
    """
    if "No module named 'planguard" in f"{error} {getattr(error, 'cause', '')}":
        from planguard import __version__

        raise UsageError(
            "a worker cannot import planguard",
            hint=f"install planguard=={__version__} on every worker; --resume goes on",
        ) from None


def chunks_of(tasks: Sequence[Task], jobs: int) -> list[Sequence[Task]]:
    """Divide tasks, so that every worker gets several chunks."""
    size = max(1, min(CHUNK, len(tasks) // (4 * jobs)))
    return [tasks[start : start + size] for start in range(0, len(tasks), size)]


def make_executor(chosen: Any, jobs: int | None) -> Executor:
    """Return the executor that a caller means.

    Args:
        chosen: None, ``"processes"`` or ``"inline"``; ``"ray"`` or ``"dask"``, with the address
            of a cluster behind a colon; a ``concurrent.futures.Executor``, a Dask client, or an
            object of the protocol.
        jobs: Number of workers, where it is ours to say.

    Raises:
        UsageError: No such executor, or its extra is not installed.
    """
    if chosen is None or chosen == "processes":
        return Processes(jobs)
    if chosen == "inline":
        return Inline()
    if isinstance(chosen, str):
        name, _, address = chosen.partition(":")
        if name == "ray":
            from planguard.screen.ray import ray_executor

            return ray_executor(address or None, jobs)
        if name == "dask":
            from planguard.screen.dask import dask_executor

            return dask_executor(address or None, jobs)
        hint = "processes, inline, ray, ray:ADDRESS, dask, dask:ADDRESS"
        raise UsageError(f"no executor is called {chosen!r}", hint=hint)
    if hasattr(chosen, "get_executor"):  # a Dask client
        from planguard.screen.dask import dask_executor

        return dask_executor(chosen, jobs)
    if hasattr(chosen, "submit"):
        return Futures(chosen, jobs)
    if isinstance(chosen, Executor):
        return chosen
    raise UsageError(
        f"a {type(chosen).__name__} is not an executor",
        hint="anything with submit(function, argument), or with run(tasks) and close()",
    )
