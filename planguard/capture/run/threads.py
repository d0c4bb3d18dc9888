"""When the threads of a recorded program begin and end, as far as another thread orders them.

A call of a thread comes behind everything that stood before the thread was started, or the task was
submitted, and before everything behind its join, or behind the reading of the task's result. What
orders threads otherwise (events, queues, locks) is not written down.
"""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from planguard.capture.names.pools import Place, Tasks
from planguard.capture.run.log import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_NUMBER = "_planguard_recorded"
"""Attribute of a thread: its number."""


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

    def handed_over(_: Place) -> int:
        number = next(numbers)
        tell(Kind.STARTED, number)
        return number

    @contextmanager
    def running_task(number: int) -> Iterator[None]:
        tell(Kind.BEGUN, number)
        with inside():
            yield

    def ended(number: int) -> None:
        tell(Kind.JOINED, number)

    replace(threading.Thread, "start", started)
    replace(threading.Thread, "join", joined)
    Tasks(handed_over, running_task, ended).follow(replace)
