"""The calls of this process: counted when issued, and the one a thread waits in now."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from planguard.live.native_stack import native_stack, waits_in_a_call
from planguard.live.state import Call, RankState, channel
from planguard.plan.vocabulary import MESSAGES
from planguard.sources import is_library, is_own, is_torch_elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

FRAMES = 32


class Tracker:
    """What this rank does. Hooks write to it, the guard's thread reads it."""

    def __init__(self, rank: int, world_size: int, *, native: bool = True) -> None:
        self.rank = rank
        self.world = tuple(range(world_size))
        self.issued = 0
        self.counts: dict[str, int] = {}
        self.ended = False
        self.polls = 0
        self._waiting: dict[int, tuple[Call, float]] = {}
        self._last: dict[int, Call] = {}
        self._works: dict[int, Call] = {}
        # Held weakly: a future of rpc may get the place of one that has gone.
        self._futures: WeakKeyDictionary[object, Call] = WeakKeyDictionary()
        self._main = threading.main_thread().ident or 0
        self._seen: tuple[object, float] = (None, 0.0)
        self._is_native = native
        self._native: tuple[int, tuple[str, ...]] = (-1, ())

    # --- written by the hooks --------------------------------------------------------------------

    def issue(
        self, op: str, group: str, ranks: tuple[int, ...], peer: int | None, tag: int
    ) -> None:
        """Count a call that was issued."""
        key = group
        if op in MESSAGES:
            key = channel(group, ">" if op == "send" else "<", peer, tag)
        position = self.counts[key] = self.counts.get(key, 0) + 1
        where = call_site(sys._getframe(1))  # noqa: SLF001  the documented way to a caller's frame
        call = Call(self.issued, op, group, ranks, peer, tag, position, where)
        self.issued += 1
        self._last[threading.get_ident()] = call

    def returned(self, work: object) -> None:
        """Remember which call a handle belongs to. The handle itself is not kept alive."""
        call = self._last.get(threading.get_ident())
        if call is not None and work is not None:
            self._works[id(work)] = call

    def future_of(self, source: object, future: object) -> None:
        """Remember the call of a future that a handle gives, or that follows on another future."""
        call = self._futures.get(source) or self._works.get(id(source))
        if call is not None:
            self._futures[future] = call

    def enter(self, work: object) -> Callable[[], None]:
        """Say that this thread waits for a handle; return what says that it goes on."""
        return self._enter(self._works.get(id(work)) or self._last.get(threading.get_ident()))

    def enter_future(self, future: object) -> Callable[[], None]:
        """Say that this thread waits for a future; one that is of no call, as of rpc, is none."""
        return self._enter(self._futures.get(future))

    def _enter(self, call: Call | None) -> Callable[[], None]:
        if call is None:
            return _nothing
        self._waiting[threading.get_ident()] = call, time.monotonic()
        return self.leave

    def leave(self) -> None:
        """Say that this thread goes on."""
        self._waiting.pop(threading.get_ident(), None)
        self.polls = 0

    # --- read by the guard -----------------------------------------------------------------------

    def is_late(self, timeout: float) -> bool:
        """Whether this rank has stood in one place for longer than ``timeout`` seconds."""
        return self._standing()[1] >= timeout

    def _standing(self) -> tuple[Call | None, float, bool]:
        """Return the call that this rank waits in, for how long, and whether that was seen."""
        now = time.monotonic()
        waits = list(self._waiting.values())
        if waits:
            call, since = min(waits, key=lambda wait: wait[1])
            return call, now - since, True
        # A reducer in C++ waits without telling: then the stack of the main thread stands still.
        frame = sys._current_frames().get(self._main)  # noqa: SLF001  see faulthandler
        place = (self.issued, id(frame), None if frame is None else frame.f_lasti)
        if place != self._seen[0]:
            self._seen = place, now
        since = now - self._seen[1]
        if _creates_a_group(frame):
            return Call(self.issued, "new_group", "world", self.world), since, True
        return self._last.get(self._main), since, False

    def state(self, epoch: int, timeout: float) -> RankState:
        """Return what this rank publishes."""
        call, since, certain = self._standing()
        late = call is not None and since >= timeout
        stack = self.stack() if late else ()
        native: tuple[str, ...] = ()
        if late:
            inferred = not certain and bool(stack) and is_torch_elsewhere(stack[0])
            # What computed at the last look may wait now, and the other way round.
            native = self._native_stack(again=inferred)
            certain = certain or (inferred and waits_in_a_call(native))
        return RankState(
            self.rank,
            epoch,
            self.issued,
            dict(self.counts),
            call if certain or late else None,
            round(since, 3),
            certain,
            stack,
            native,
            self.ended,
        )

    def _native_stack(self, *, again: bool) -> tuple[str, ...]:
        """Return the native frames of the main thread, read once for every place it stands in."""
        if self._is_native and (again or self._native[0] != self.issued):
            self._native = self.issued, native_stack()
        return self._native[1]

    def stack(self) -> tuple[str, ...]:
        """Return the Python stack of the main thread, innermost frame first."""
        frame = sys._current_frames().get(self._main)  # noqa: SLF001  see faulthandler
        found: list[str] = []
        while frame is not None and len(found) < FRAMES:
            code = frame.f_code
            if not is_own(code.co_filename):
                found.append(f"{code.co_filename}:{frame.f_lineno} in {code.co_name}")
            frame = frame.f_back
        return tuple(found)


def _creates_a_group(frame: FrameType | None) -> bool:
    """Whether a thread stands in torch's new_group, which waits in the store and not in a call."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "new_group" and code.co_filename.endswith("distributed_c10d.py"):
            return True
        frame = frame.f_back
    return False


_codes: dict[int, tuple[CodeType, bool]] = {}
"""Whether code is a library's, by its identity; it is kept, so that no other gets its place.

Only since a process group exists, and with it torch, is it asked: the answer does not change.
"""


def call_site(frame: FrameType | None) -> str:
    """Return ``file:line`` of the innermost frame that belongs to no library."""
    while frame is not None:
        code = frame.f_code
        known = _codes.get(id(code))
        if known is None:
            known = _codes[id(code)] = code, is_library(code.co_filename)
        if not known[1]:
            return f"{code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def ended(state: RankState) -> RankState:
    """Return the last state of a rank that leaves."""
    return replace(state, has_ended=True, current=None)


def _nothing() -> None:
    """What ends a wait that was not noted."""
