"""Tasks of thread pools: each is a thread of its own, from ``submit`` to where its end is known.

A pool's threads live as long as it does, so that their starts and joins order nothing. What orders
a task is the line that submits it, and the reading of its result. Leaving ``with pool`` waits for
all. A callback of ``add_done_callback`` runs behind the task, in the pool's thread; whoever reads
the result has not waited for it (``Future.set_result`` wakes readers first).
"""

from __future__ import annotations

import asyncio
import asyncio.futures
import itertools
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_NUMBER = "_planguard_task"
"""Attribute of a future: the number of the task whose result it has."""
_DONE = Future.done
"""As it is; a played rank asks in its place who comes first."""


@dataclass(frozen=True)
class Place:
    """Where a task runs.

    Attributes:
        pool: Number of its pool.
        workers: Threads of the pool.
        behind: Number of the task behind which a callback runs; None for a task.
    """

    pool: int
    workers: int
    behind: int | None = None


@dataclass
class Tasks:
    """The tasks that pools of this process were given.

    Attributes:
        started: Called where a task or a callback is handed over; gives it a number.
        running: Makes what is held while the one of a number runs.
        ended: Called where the running thread knows that the one of a number has ended.
    """

    started: Callable[[Place], int]
    running: Callable[[int], AbstractContextManager[None]]
    ended: Callable[[int], None]
    _given: WeakKeyDictionary[Any, list[int]] = field(default_factory=WeakKeyDictionary)
    _pools: WeakKeyDictionary[Any, int] = field(default_factory=WeakKeyDictionary)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _places: WeakKeyDictionary[Any, tuple[Any, Place]] = field(default_factory=WeakKeyDictionary)

    def known_to_end(self, future: Any) -> None:
        """Note that the running thread was told that a task has ended."""
        number = getattr(future, _NUMBER, 0)
        if number and _DONE(future):
            self.ended(number)

    def follow(self, replace: Callable[[Any, str, Any], None]) -> None:
        """Note where tasks are handed over, run, and are waited for.

        Args:
            replace: Called with owner, name and the new function.
        """
        submit, shutdown = ThreadPoolExecutor.submit, ThreadPoolExecutor.shutdown
        added, wrapped = Future.add_done_callback, asyncio.futures.wrap_future

        def submitted(pool: Any, fn: Any, /, *args: Any, **options: Any) -> Any:
            if pool not in self._pools:
                self._pools[pool] = next(self._numbers)
            place = Place(self._pools[pool], pool._max_workers)  # noqa: SLF001 - no public way
            number = self.started(place)
            self._given.setdefault(pool, []).append(number)

            def running(*given: Any, **named: Any) -> Any:
                with self.running(number):
                    return fn(*given, **named)

            future = submit(pool, running, *args, **options)
            setattr(future, _NUMBER, number)
            self._places[future] = self._given[pool], place
            return future

        def shut(pool: Any, wait: bool = True, **options: Any) -> None:  # noqa: FBT001, FBT002 - as pools have it
            shutdown(pool, wait, **options)
            for number in self._given.get(pool, ()) if wait else ():
                self.ended(number)

        def adding(future: Any, callback: Any) -> None:
            if future not in self._places:
                added(future, callback)
                return
            given, place = self._places[future]
            number = self.started(Place(place.pool, place.workers, getattr(future, _NUMBER)))
            given.append(number)
            here = [threading.current_thread()]

            def run(one: Any) -> None:
                is_at_once = here == [threading.current_thread()]  # it had ended
                with nullcontext() if is_at_once else self.running(number):
                    callback(one)

            added(future, run)
            here.clear()

        def awaited(future: Any, **options: Any) -> Any:
            found = wrapped(future, **options)
            if found is not future:  # called in the loop's thread, before whoever awaits goes on
                found.add_done_callback(lambda _: self.known_to_end(future))
            return found

        replace(ThreadPoolExecutor, "submit", submitted)
        replace(ThreadPoolExecutor, "shutdown", shut)
        replace(Future, "add_done_callback", adding)
        for owner in (asyncio, asyncio.futures):
            replace(owner, "wrap_future", awaited)
        for name in ("result", "exception"):
            replace(Future, name, self._reading(getattr(Future, name)))

    def _reading(self, original: Any) -> Any:
        def read(future: Any, timeout: float | None = None) -> Any:
            try:
                return original(future, timeout)
            finally:
                self.known_to_end(future)

        return read
