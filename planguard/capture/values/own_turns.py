"""Who comes first on one rank: what is done, which of several ends first (queues: ``own_queues``).

How long a thread takes is each rank's own. A program asks for it without a clock: it takes what is
done first, waits for a time and goes on without, looks whether a thread is alive. A rank that is
answered otherwise finds the last one done first, a wait that is over, a thread that has ended
or not yet. What waits is not kept waiting: what was said to be done is waited for when it is used.

Threads that put what they find into one list, or one queue, have an order of each rank's own, too.
On an odd rank the first threads of a line begin late, the first one last.

Only what the main thread asks counts, which communicates; a thread that looks whether it is to end
is told what is so.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing.pool
import multiprocessing.process
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from planguard.capture.values.own_files import is_caught_at
from planguard.capture.values.own_queues import AT_MOST, Queues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

TURN = "who comes first, or what a wait ends with"
_LATE, _LESS_LATE = 0.12, 0.04
"""Seconds by which the first thread of a line begins late, and by how much less each next one."""


class Turns:
    """The threads and queues of one rank."""

    def __init__(
        self, rank: int, is_other: Callable[[str], bool], is_odd: Callable[[str], bool],
        place: Callable[[FrameType], str | None],
    ) -> None:  # fmt: skip
        self._is_more = bool(rank.bit_count() % 2)
        self._is_other = is_other
        self._is_odd = is_odd
        self._line = place
        self._queues = Queues(self._asked)
        self._begun: Counter[str] = Counter()
        self.handle: type | None = None
        """What asynchronous calls return here."""
        self.told_of_end: Callable[[Any], None] = _nothing
        """Called with each future and thread of which the program is told that it has ended."""

    def questions(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return every function that asks: owner, name, and what makes the one in its place."""
        yield concurrent.futures, "as_completed", self._completed
        yield multiprocessing.pool.Pool, "imap_unordered", self._unordered
        yield concurrent.futures.Future, "done", self._ended
        yield multiprocessing.pool.ApplyResult, "ready", self._ended
        yield threading.Thread, "is_alive", self._ended
        yield threading.Event, "is_set", self._happened
        yield threading.Event, "wait", self._waited
        yield concurrent.futures.Future, "result", self._brought
        yield asyncio, "wait_for", self._limited
        yield asyncio, "wait", self._awaited
        yield asyncio, "timeout", self._timed
        yield asyncio, "as_completed", self._in_turn
        yield concurrent.futures, "wait", self._some
        yield threading.Thread, "start", self._started
        yield concurrent.futures.ThreadPoolExecutor, "submit", self._submitted
        yield multiprocessing.process.BaseProcess, "is_alive", self._ended
        yield threading.Condition, "wait", self._waited
        yield threading.Semaphore, "acquire", self._acquired
        yield from self._queues.questions()
        yield self.handle, "is_completed", self._ended
        yield self.handle, "wait", self._held
        yield getattr(sys.modules.get("torch.futures"), "Future", None), "done", self._ended

    def methods(self) -> Iterator[tuple[type, str, Callable[[Any], Any]]]:
        """Return the methods of types written in C that ask, as ``questions`` does."""
        yield type(threading.Lock()), "acquire", self._acquired
        yield from self._queues.methods()

    def _place(self, frame: FrameType) -> str | None:
        place = self._line(frame)  # first: which thread this is may ask a lock itself
        if place is None or threading.current_thread() is not threading.main_thread():
            return None
        return place

    def _asked(self, frame: FrameType) -> bool:
        place = self._place(frame)
        return place is not None and self._is_other(place)

    def _completed(self, original: Any) -> Any:
        def as_completed(fs: Any, *args: Any, **options: Any) -> Any:
            place = self._place(sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
            futures = list(dict.fromkeys(fs))
            if place is None or len(futures) < 2:
                return self._telling(original(futures, *args, **options))
            return self._telling(self._ordered(place, futures, original, args, options))

        return as_completed

    def _telling(self, futures: Iterable[Any]) -> Iterator[Any]:
        for one in futures:
            self.told_of_end(one)
            yield one

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
            found, is_other = bool(original(one)), self._asked(sys._getframe(1))  # noqa: SLF001 - same
            is_thread = isinstance(one, threading.Thread)
            has_ended = found != is_thread
            if is_other and not has_ended:
                _wait_for(one)
            if is_other != has_ended:
                self.told_of_end(one)
            return found != is_other

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

    def _brought(self, original: Any) -> Any:
        def result(one: Any, timeout: float | None = None) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - same
            if timeout is not None and is_caught_at(frame) and self._asked(frame):
                raise concurrent.futures.TimeoutError
            return original(one, timeout)

        return result

    def _held(self, original: Any) -> Any:
        def wait(one: Any, timeout: Any = None) -> bool:
            frame = sys._getframe(1)  # noqa: SLF001 - same
            done = bool(original(one, timeout))
            if timeout is not None and is_caught_at(frame) and self._asked(frame):
                raise RuntimeError("Timed out waiting for a call to complete")  # as gloo says it
            return done

        return wait

    def _limited(self, original: Any) -> Any:
        async def wait_for(awaited: Any, timeout: float | None, **options: Any) -> Any:  # noqa: ASYNC109 - as asyncio has it
            frame = sys._getframe(1)  # noqa: SLF001 - same
            if timeout is not None and is_caught_at(frame) and self._asked(frame):
                found = asyncio.ensure_future(awaited)
                found.cancel()
                raise TimeoutError
            return await original(awaited, timeout, **options)

        return wait_for

    # --- threads that begin late ---------------------------------------------------------------

    def _late(self, frame: FrameType) -> float:
        """Note that a thread begins; return by how many seconds it begins late."""
        place = self._place(frame)
        if place is None or not self._is_odd(place):
            return 0.0
        self._begun[place] += 1
        return max(0.0, _LATE - _LESS_LATE * (self._begun[place] - 1))

    def _started(self, original: Any) -> Any:
        def start(thread: threading.Thread) -> None:
            late = self._late(sys._getframe(1))  # noqa: SLF001 - same
            if late:
                thread.run = _later(thread.run, late)  # type: ignore[method-assign]  # of this thread alone
            original(thread)

        return start

    def _submitted(self, original: Any) -> Any:
        def submit(pool: Any, work: Any, /, *args: Any, **options: Any) -> Any:
            late = self._late(sys._getframe(1))  # noqa: SLF001 - same
            return original(pool, _later(work, late) if late else work, *args, **options)

        return submit

    # --- waits that end otherwise --------------------------------------------------------------

    def _acquired(self, original: Any) -> Any:
        def acquire(lock: Any, blocking: Any = True, timeout: Any = None) -> Any:  # noqa: FBT002 - as locks have it
            given = () if timeout is None else (timeout,)
            found = original(lock, blocking, *given)
            is_limited = not blocking or (timeout is not None and timeout >= 0)
            if not is_limited or not self._asked(sys._getframe(1)):  # noqa: SLF001 - same
                return found
            if found:
                lock.release()
                return False
            return original(lock, True, 1.0)

        return acquire

    def _some(self, original: Any) -> Any:
        def wait(fs: Any, timeout: Any = None, return_when: str = _ALL) -> Any:
            futures = list(fs)
            _, rest = found = original(futures, timeout, return_when)
            is_limited = timeout is not None or return_when != _ALL
            if is_limited and self._asked(sys._getframe(1)):  # noqa: SLF001 - same
                ended = partial(original, futures, AT_MOST)
                found = type(found)(*self._others(futures, rest, lambda: ended()[0]))
            for one in found[0]:
                self.told_of_end(one)
            return found

        return wait

    def _awaited(self, original: Any) -> Any:
        async def wait(fs: Any, **options: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - same
            futures = list(fs)
            is_limited = (
                options.get("timeout") is not None or options.get("return_when", _ALL) != _ALL
            )
            _, rest = found = await original(futures, **options)
            if not is_limited or not self._asked(frame):
                return found
            ended = (await original(futures, timeout=AT_MOST))[0] if rest else set()
            return self._others(futures, rest, lambda: ended)

        return wait

    def _timed(self, original: Any) -> Any:
        def timeout(delay: float | None) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - same
            is_over = delay is not None and is_caught_at(frame) and self._asked(frame)
            return original(0 if is_over else delay)

        return timeout

    def _in_turn(self, original: Any) -> Any:
        def as_completed(fs: Any, **options: Any) -> Any:
            place = self._place(sys._getframe(1))  # noqa: SLF001 - same
            if place is None or not self._is_odd(place):
                return original(fs, **options)
            return _Backwards([asyncio.ensure_future(one) for one in fs])

        return as_completed

    def _others(
        self, futures: list[Any], rest: Any, ended: Callable[[], Any]
    ) -> tuple[set[Any], set[Any]]:
        """Return what is done and what is not where a wait for some of it ends otherwise.

        On one half of the ranks another one is the first, on the other half all are done by then.
        """
        if not rest:
            return set(), set(futures)  # the time was over
        done = ended()
        last = {one for one in futures[-1:] if one in done and one in rest}
        is_first = bool(last) and self._is_more
        return (last, set(futures) - last) if is_first else (done, set(futures) - done)


_ALL = "ALL_COMPLETED"


def _nothing(_: Any) -> None:
    """Tell nobody."""


def _wait_for(one: Any) -> None:
    """Wait for what a rank is told has ended, as far as it can be waited for."""
    with suppress(Exception):
        if isinstance(one, threading.Thread):
            one.join(AT_MOST)
        elif isinstance(one, concurrent.futures.Future):
            one.exception(AT_MOST)


def _later(work: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    def begin(*args: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return work(*args, **options)

    return begin


class _Backwards:
    """What is awaited, from the last one on; to be walked with ``for`` or with ``async for``."""

    def __init__(self, futures: list[Any]) -> None:
        self._rest = futures

    def __iter__(self) -> Iterator[Any]:
        while self._rest:
            yield self._rest.pop()

    async def __aiter__(self) -> Any:
        for one in self:
            await asyncio.wait([one])
            yield one
