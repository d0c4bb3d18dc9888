"""Who comes first on one rank: what is done, what is in a queue, which of several ends first.

How long a thread takes is each rank's own. A program asks for it without a clock: it takes what is
done first, waits for a time and goes on without, looks whether a thread is alive. A rank that is
answered otherwise finds the last one done first, a wait that is over, a thread that has ended
or not yet. What waits is not kept waiting: what was said to be done is waited for when it is used.

Only what the main thread asks counts, which communicates; a thread that looks whether it is to end
is told what is so.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing.pool
import queue
import sys
import threading
from typing import TYPE_CHECKING, Any

from planguard.capture.values.own_files import is_caught_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

TURN = "who comes first, or what a wait ends with"


class Turns:
    """The threads and queues of one rank."""

    def __init__(
        self, is_other: Callable[[str], bool], is_odd: Callable[[str], bool],
        place: Callable[[FrameType], str | None],
    ) -> None:  # fmt: skip
        self._is_other = is_other
        self._is_odd = is_odd
        self._line = place

    def questions(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return every function that asks: owner, name, and what makes the one in its place."""
        yield concurrent.futures, "as_completed", self._completed
        yield multiprocessing.pool.Pool, "imap_unordered", self._unordered
        yield concurrent.futures.Future, "done", self._ended
        yield multiprocessing.pool.ApplyResult, "ready", self._ended
        yield threading.Thread, "is_alive", self._ended
        yield threading.Event, "is_set", self._happened
        yield threading.Event, "wait", self._waited
        yield queue.Queue, "get", self._taken
        yield concurrent.futures.Future, "result", self._brought
        yield asyncio, "wait_for", self._limited

    def _place(self, frame: FrameType) -> str | None:
        is_main = threading.current_thread() is threading.main_thread()
        return self._line(frame) if is_main else None

    def _asked(self, frame: FrameType) -> bool:
        place = self._place(frame)
        return place is not None and self._is_other(place)

    def _completed(self, original: Any) -> Any:
        def as_completed(fs: Any, *args: Any, **options: Any) -> Any:
            place = self._place(sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
            futures = list(dict.fromkeys(fs))
            if place is None or len(futures) < 2:
                return original(futures, *args, **options)
            return iter(self._ordered(place, futures, original, args, options))

        return as_completed

    def _ordered(
        self, place: str, futures: list[Any], original: Any, args: Any, options: Any
    ) -> list[Any]:
        """Return all once they are done: in their order, or from the last one on an odd rank."""
        done = set(original(futures, *args, **options))
        found = [one for one in futures if one in done]
        return found[::-1] if self._is_odd(place) else found

    def _unordered(self, original: Any) -> Any:
        def imap_unordered(pool: Any, *args: Any, **options: Any) -> Any:
            place = self._place(sys._getframe(1))  # noqa: SLF001 - same
            if place is None:
                return original(pool, *args, **options)
            found = list(pool.imap(*args, **options))
            return iter(found[::-1] if self._is_odd(place) else found)

        return imap_unordered

    def _ended(self, original: Any) -> Any:
        def ended(one: Any) -> bool:
            found = bool(original(one))
            return found != self._asked(sys._getframe(1))  # noqa: SLF001 - same

        return ended

    def _happened(self, original: Any) -> Any:
        def is_set(one: Any) -> bool:
            return bool(original(one)) or self._asked(sys._getframe(1))  # noqa: SLF001 - same

        return is_set

    def _waited(self, original: Any) -> Any:
        def wait(one: Any, timeout: float | None = None) -> bool:
            if timeout is None:
                return bool(original(one))
            is_other = self._asked(sys._getframe(1))  # noqa: SLF001 - same
            return bool(original(one, timeout)) != is_other

        return wait

    def _taken(self, original: Any) -> Any:
        def get(one: Any, block: Any = True, timeout: float | None = None) -> Any:  # noqa: FBT002 - as queue has it
            frame = sys._getframe(1)  # noqa: SLF001 - same
            if frame.f_code.co_name == "get_nowait" and frame.f_back is not None:
                frame = frame.f_back
            is_limited = not block or timeout is not None
            if is_limited and is_caught_at(frame) and self._asked(frame):
                raise queue.Empty
            return original(one, block, timeout)

        return get

    def _brought(self, original: Any) -> Any:
        def result(one: Any, timeout: float | None = None) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - same
            if timeout is not None and is_caught_at(frame) and self._asked(frame):
                raise concurrent.futures.TimeoutError
            return original(one, timeout)

        return result

    def _limited(self, original: Any) -> Any:
        async def wait_for(awaited: Any, timeout: float | None, **options: Any) -> Any:  # noqa: ASYNC109 - as asyncio has it
            frame = sys._getframe(1)  # noqa: SLF001 - same
            if timeout is not None and is_caught_at(frame) and self._asked(frame):
                found = asyncio.ensure_future(awaited)
                found.cancel()
                raise TimeoutError
            return await original(awaited, timeout, **options)

        return wait_for
