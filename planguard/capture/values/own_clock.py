"""What time it is on one rank: a clock that runs ahead, or shows a moment.

How long something took is one question, answered by a clock that is a day further at each look.
What hour it is, or how many seconds of a minute are over, is another: a day later it is the same
hour, and the clock has to show a moment that the program may wait for (``moments`` says which).
"""

from __future__ import annotations

import datetime as dt
import sys
import time
import timeit
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_AHEAD = 86_400
"""Seconds by which a clock gets ahead at each question: any time that a program waits for."""
_MOST_LOOKS = 16
"""Looks over which the pace of a clock changes: its days stay longer than what a program does."""
_COUNTED = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_BROKEN_DOWN = (("localtime", 0), ("gmtime", 0), ("ctime", 0), ("strftime", 1), ("asctime", 0))
"""Of ``time``, with the place of the time that may be given; now, where none is."""
_TIME, _LOCAL = time.time, time.localtime


@dataclass(frozen=True)
class Moment:
    """What a clock shows: month, day, hour, minute and second of local time.

    Attributes:
        fields: Them.
        weekday: 0 to 6 where the day of the week counts, too; a year that has it is taken.
    """

    fields: tuple[int, int, int, int, int]
    weekday: int | None = None

    @property
    def words(self) -> str:
        """It, as a date without a year."""
        month, day, hour, minute, second = self.fields
        return f"{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"

    def after(self, seconds: float) -> float:
        """Return the next time that it comes, in seconds since the epoch."""
        year = dt.datetime.fromtimestamp(seconds).year  # noqa: DTZ006 - local, as programs ask
        for later in range(30):  # a date falls on every day of the week within twelve years
            found = dt.datetime(year + later, *self.fields)  # noqa: DTZ001 - local, as programs ask
            is_fit = self.weekday is None or found.weekday() == self.weekday
            if is_fit and found.timestamp() > seconds:
                return found.timestamp()
        return seconds + _AHEAD


class Clock:
    """The clocks of one rank.

    Attributes:
        ahead: Seconds by which they are ahead.
        pace: How much longer each of its days is than the one before; 1 for days.
        is_paced: Tells whether a clock that is asked at a line has another pace.
    """

    def __init__(
        self, is_odd: Callable[[str], bool], place: Callable[[FrameType], str | None]
    ) -> None:
        self._is_odd = is_odd
        self._place = place
        self.ahead = 0.0
        self.moment: Moment | None = None
        self.pace = 1.0
        self.is_paced: Callable[[str], bool] = lambda _: False
        self._looks = 0

    def asked(self, frame: FrameType) -> bool:
        """Note a question and run ahead on an odd rank; tell whether the program asks."""
        place = self._place(frame)
        if place is None:
            return False
        if self.pace != 1.0:
            self._is_odd(place)  # it is noted all the same
            if self.is_paced(place):
                self.ahead += _AHEAD * self.pace ** min(self._looks, _MOST_LOOKS)
                self._looks += 1
        elif self._is_odd(place):
            now = _TIME() + self.ahead
            self.ahead += _AHEAD if self.moment is None else self.moment.after(now) - now
        return True

    def questions(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return every function that asks: owner, name, and what makes the one in its place."""
        for name in _COUNTED:
            yield time, name, partial(self._counted, unit=1)
            yield time, f"{name}_ns", partial(self._counted, unit=10**9)
        for name, at in _BROKEN_DOWN:
            yield time, name, partial(self._broken_down, at=at)
        yield timeit, "default_timer", partial(self._counted, unit=1)
        yield timeit, "timeit", partial(self._counted, unit=1)
        events = sys.modules.get("asyncio.base_events")
        if events is not None:
            yield events.BaseEventLoop, "time", self._loops
            yield events.BaseEventLoop, "call_at", self._called_at

    def _counted(self, original: Any, unit: int) -> Any:
        def clock(*args: Any, **options: Any) -> Any:
            if not self.asked(sys._getframe(1)):  # noqa: SLF001 - the interpreter has no public way
                return original(*args, **options)
            return original(*args, **options) + (
                self.ahead if unit == 1 else int(self.ahead * unit)
            )

        return clock

    def _broken_down(self, original: Any, at: int) -> Any:
        def told(*args: Any) -> Any:
            is_now = len(args) <= at or args[at] is None
            if not is_now or not self.asked(sys._getframe(1)) or not self.ahead:  # noqa: SLF001 - same
                return original(*args)
            now: Any = _TIME() + self.ahead
            if original.__name__ in ("strftime", "asctime"):
                now = _LOCAL(now)
            return original(*args[:at], now)

        return told

    def day(self, original: Any) -> Any:
        """Make ``datetime.now`` and its like, which are methods of a class."""

        def now(kind: Any, *args: Any, **options: Any) -> Any:
            is_asked = self.asked(sys._getframe(1))  # noqa: SLF001 - same
            found = original.__get__(None, kind)(*args, **options)  # behind it: no moment too early
            if not is_asked:
                return found
            if not isinstance(found, dt.datetime):  # a day has no hours to add seconds to
                return kind.fromtimestamp(_TIME() + self.ahead)
            return found + dt.timedelta(seconds=self.ahead)

        return classmethod(now)

    def _loops(self, original: Any) -> Any:
        def now(loop: Any) -> Any:
            is_asked = self.asked(sys._getframe(1))  # noqa: SLF001 - same
            return original(loop) + (self.ahead if is_asked else 0.0)

        return now

    def _called_at(self, original: Any) -> Any:
        def call_at(loop: Any, when: float, *args: Any, **options: Any) -> Any:
            # A time that the program computed from the clock that is ahead comes as soon as before.
            if self.ahead and when > time.monotonic() + self.ahead / 2:
                when -= self.ahead
            return original(loop, when, *args, **options)

        return call_at
