"""When the threads of a recorded program begin and end, as far as another thread orders them.

A call of a thread comes behind everything that stood before the thread was started, or the task was
submitted, and before everything behind its join, or behind the reading of the task's result. What
orders threads otherwise (events, queues, locks) is not written down.
"""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from planguard.capture.run.log import Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

_NUMBER = "_planguard_recorded"
"""Attribute of a thread or a future: the number of what it runs."""


def watch_threads(
    replace: Callable[[Any, str, Any], None],
    tell: Callable[[Kind, int], None],
    inside: Callable[[], AbstractContextManager[None]],
) -> None:
    """Write down where threads and tasks of thread pools start, begin and are waited for.

    Args:
        replace: Called with owner, name and the new method.
        tell: Called with the kind of a record and the number of the thread or task.
        inside: Makes what is held while a thread or a task runs: torch's modes are a thread's own.
    """
    numbers = itertools.count(1)
    start, join = threading.Thread.start, threading.Thread.join
    submit, result = ThreadPoolExecutor.submit, Future.result

    def started(thread: threading.Thread) -> None:
        number, run = next(numbers), thread.run
        setattr(thread, _NUMBER, number)

        def running() -> None:
            tell(Kind.BEGUN, number)
            with inside():
                run()

        thread.run = running  # type: ignore[method-assign]
        tell(Kind.STARTED, number)
        start(thread)

    def joined(thread: threading.Thread, timeout: float | None = None) -> None:
        join(thread, timeout)
        number = getattr(thread, _NUMBER, 0)
        if number and not thread.is_alive():
            tell(Kind.JOINED, number)

    def submitted(pool: Any, fn: Any, /, *args: Any, **options: Any) -> Any:
        number = next(numbers)

        def running(*given: Any, **named: Any) -> Any:
            tell(Kind.BEGUN, number)
            with inside():
                return fn(*given, **named)

        tell(Kind.STARTED, number)
        future = submit(pool, running, *args, **options)
        setattr(future, _NUMBER, number)
        return future

    def read(future: Any, timeout: float | None = None) -> Any:
        try:
            return result(future, timeout)
        finally:
            number = getattr(future, _NUMBER, 0)
            if number and future.done():
                tell(Kind.JOINED, number)

    for owner, name, value in (
        (threading.Thread, "start", started),
        (threading.Thread, "join", joined),
        (ThreadPoolExecutor, "submit", submitted),
        (Future, "result", read),
    ):
        replace(owner, name, value)
