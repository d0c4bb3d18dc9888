"""What is in a queue or a pipe yet: how long it takes until something is there is each rank's own.

What is there was not yet there on a rank that is answered otherwise. What is not there cannot be
said to be, since whoever takes it would wait for ever; but who puts it there may have been quicker
on that rank, so it waits a while. What does not come in that time is taken never to come.
"""

from __future__ import annotations

import multiprocessing.connection
import multiprocessing.queues
import queue
import select
import selectors
import sys
import time
from typing import TYPE_CHECKING, Any

from planguard.capture.values.own_files import is_caught_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

AT_MOST = 5.0
"""Seconds that are waited for what a program would not have waited for."""
_LOOK = 0.002
"""Seconds from one look at a queue to the next."""


class Queues:
    """The queues and pipes of one rank.

    Args:
        asked: Tells whether the code of a frame is answered otherwise.
    """

    def __init__(self, asked: Callable[[FrameType], bool]) -> None:
        self._asked = asked

    def questions(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return every function that asks: owner, name, and what makes the one in its place."""
        yield queue.Queue, "get", self._taken
        for kind in (queue.Queue, multiprocessing.queues.Queue):
            yield kind, "empty", self._emptied
            yield kind, "qsize", self._emptied
        yield multiprocessing.queues.Queue, "get", self._taken
        yield multiprocessing.queues.SimpleQueue, "empty", self._emptied
        yield multiprocessing.connection.Connection, "poll", self._polled
        yield multiprocessing.connection, "wait", lambda given: self._ready(given, 1)
        yield select, "select", lambda given: self._ready(given, 3)
        yield selectors.DefaultSelector, "select", lambda given: self._ready(given, 1)

    def methods(self) -> Iterator[tuple[type, str, Callable[[Any], Any]]]:
        """Return the methods of types written in C that ask, as ``questions`` does."""
        yield queue.SimpleQueue, "get", self._taken
        yield queue.SimpleQueue, "get_nowait", self._taken_now
        yield queue.SimpleQueue, "empty", self._emptied
        yield queue.SimpleQueue, "qsize", self._emptied

    def _taken(self, original: Any) -> Any:
        def get(one: Any, block: Any = True, timeout: float | None = None) -> Any:  # noqa: FBT002 - as queue has it
            frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
            if frame.f_code.co_name == "get_nowait" and frame.f_back is not None:
                frame = frame.f_back
            is_limited = not block or timeout is not None
            if is_limited and is_caught_at(frame) and self._asked(frame):
                _take_otherwise(one, timeout if block and timeout is not None else 0.0)
            return original(one, block, timeout)

        return get

    def _taken_now(self, original: Any) -> Any:
        def get_nowait(one: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - same
            if is_caught_at(frame) and self._asked(frame):
                _take_otherwise(one, 0.0)
            return original(one)

        return get_nowait

    def _emptied(self, original: Any) -> Any:
        is_size = original.__name__ == "qsize"

        def nothing(one: Any) -> Any:
            found = original(one)
            if not self._asked(sys._getframe(1)):  # noqa: SLF001 - same
                return found
            if (found > 0) == is_size:
                return 0 if is_size else True
            _comes(lambda: original(one) != found)
            return original(one)

        return nothing

    def _polled(self, original: Any) -> Any:
        def poll(one: Any, timeout: Any = 0.0) -> bool:
            found = bool(original(one, timeout))
            if timeout is None or not self._asked(sys._getframe(1)):  # noqa: SLF001 - same
                return found
            return not found and bool(original(one, AT_MOST))  # as of a queue

        return poll

    def _ready(self, original: Any, at: int) -> Any:
        """Make a wait for one of several, whose limit is its argument of a number, or by name."""

        def ready(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            limit = args[at] if len(args) > at else options.get("timeout")
            if limit is None or not self._asked(sys._getframe(1)):  # noqa: SLF001 - same
                return found
            if any(found):
                return type(found)([] for _ in found) if isinstance(found, tuple) else []
            if len(args) > at:
                return original(*args[:at], AT_MOST, *args[at + 1 :], **options)
            return original(*args, **{**options, "timeout": AT_MOST})

        return ready


def _take_otherwise(one: Any, within: float) -> None:
    """Wait for what is not in a queue in time.

    Raises:
        queue.Empty: It is there in time, and is not for the other answer; or it never comes.
    """
    if _comes(lambda: not one.empty(), within) or not _comes(lambda: not one.empty()):
        raise queue.Empty


def _comes(is_there: Callable[[], bool], within: float = AT_MOST) -> bool:
    """Wait for what another thread or process is to put somewhere; tell whether it has."""
    end = time.monotonic() + within
    while not (found := is_there()) and time.monotonic() < end:
        time.sleep(_LOOK)
    return found
