"""What happens to one rank alone: a signal, a timer, memory that runs out, a network that answers.

Nobody asks for these, so that no play has them by itself. A program that is ready for one says so:
it sets a handler for a signal, catches that memory ran out, or that nobody answers. There a rank
can be given it:

* a signal arrives between two calls, behind the one after its handler was set, and so does what a
  timer calls (``threading.Timer``, ``loop.call_later``), unless it was cancelled by then;
* memory runs out in the first module or backward pass under such an ``except``, once a line;
* who connects is refused, or connected where here it is not: what it then reads is empty.
"""

from __future__ import annotations

import ast
import errno
import io
import linecache
import os
import signal
import socket
import sys
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from planguard.capture.names.source import tree_of
from planguard.capture.values.own_files import is_caught_at
from planguard.sources import is_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

SIGNAL, MEMORY = "whether a signal arrives", "whether memory runs out"
TIMER = "whether a timer has run down"
NETWORK = "whether a network answers"
_NOT_SENT = frozenset({signal.SIGCHLD, signal.SIGPIPE, signal.SIGWINCH})
"""Signals that say nothing to a job."""
_BY_SIGNAL = 128
"""What a shell adds to the number of a signal that ended a process."""
_OUT = "out of memory"
_SAYING = ("OutOfMemoryError", _OUT)
"""What a handler names that is ready for too little memory."""


class Events:
    """What happens to one rank."""

    def __init__(
        self, is_other: Callable[[str, str], bool], place: Callable[[FrameType], str | None]
    ) -> None:
        self._is_other = is_other
        self._place = place
        self._now = threading.local()
        self._ready: dict[tuple[CodeType, int], bool] = {}
        self._pending: list[Callable[[], object]] = []
        self._calls = 0

    def questions(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return every function that asks: owner, name, and what makes the one in its place."""
        import torch

        yield signal, "signal", self._handled
        yield threading.Timer, "start", self._timed
        loops = sys.modules.get("asyncio.base_events")
        yield getattr(loops, "BaseEventLoop", None), "call_later", self._called_later
        yield torch.nn.Module, "__call__", self._computed
        yield torch.Tensor, "backward", self._computed
        yield urllib.request, "urlopen", self._opened
        yield socket, "create_connection", self._connected
        yield socket.socket, "connect", self._connected
        yield socket.socket, "connect_ex", self._connected

    # --- signals -------------------------------------------------------------------------------

    def _handled(self, original: Any) -> Any:
        def handle(number: int, handler: Any) -> Any:
            place = self._place(sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
            is_one = callable(handler) and number not in _NOT_SENT and place is not None
            if is_one and place is not None and self._is_other(SIGNAL, place):
                self._comes(lambda: _handle(number, handler))
            return original(number, handler)

        return handle

    def _comes(self, event: Callable[[], object]) -> None:
        self._pending.append(event)
        self._calls = 0

    def _timed(self, original: Any) -> Any:
        def start(timer: threading.Timer) -> None:
            place = self._place(sys._getframe(1))  # noqa: SLF001 - same
            if place is not None and self._is_other(TIMER, place):
                self._comes(lambda: _run_down(timer))
            original(timer)

        return start

    def _called_later(self, original: Any) -> Any:
        def call_later(loop: Any, delay: float, call: Any, *args: Any, **options: Any) -> Any:
            place = self._place(sys._getframe(1))  # noqa: SLF001 - same
            handle = original(loop, delay, call, *args, **options)
            if place is not None and self._is_other(TIMER, place):
                self._comes(lambda: None if handle.cancelled() else _called(handle, call, args))
            return handle

        return call_later

    def before_call(self) -> None:
        """Let signals and timers come that are on their way, before a call of the main thread."""
        if not self._pending or threading.current_thread() is not threading.main_thread():
            return
        self._calls += 1
        if self._calls < 2:
            return
        pending, self._pending = self._pending, []
        for event in pending:
            event()

    # --- memory --------------------------------------------------------------------------------

    def _computed(self, original: Any) -> Any:
        import torch

        def compute(*args: Any, **options: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - same
            place = self._place(frame)
            if place is not None and self._is_prepared(frame) and self._is_other(MEMORY, place):
                raise torch.OutOfMemoryError(f"CUDA {_OUT}. Tried to allocate 2.00 GiB")
            return original(*args, **options)

        return compute

    def _is_prepared(self, frame: FrameType | None) -> bool:
        """Tell whether a handler of the program is ready for too little memory."""
        while frame is not None:
            code = frame.f_code
            if is_program(code.co_filename):
                key = code, frame.f_lasti
                if key not in self._ready:
                    self._ready[key] = _is_ready(frame)
                if self._ready[key]:
                    return True
            frame = frame.f_back
        return False

    # --- a network -----------------------------------------------------------------------------

    def _asked(self, frame: FrameType | None) -> bool | None:
        """Tell whether it is answered otherwise; None where no program asks that is ready."""
        while frame is not None and not is_program(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None or getattr(self._now, "inside", False):
            return None
        return self._is_other(NETWORK, f"{frame.f_code.co_filename}:{frame.f_lineno}")

    def _inside(self, call: Callable[[], Any]) -> Any:
        self._now.inside = True
        try:
            return call()
        finally:
            self._now.inside = False

    def _connected(self, original: Any) -> Any:
        is_number = original.__name__ == "connect_ex"

        def connect(*args: Any, **options: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - same
            first = args[0] if args else None
            is_far = not isinstance(first, socket.socket) or first.family != socket.AF_UNIX
            if not is_far or not (is_number or is_caught_at(frame)):
                return original(*args, **options)
            is_other = self._asked(frame)
            if is_other is None:
                return original(*args, **options)
            try:
                found = self._inside(lambda: original(*args, **options))
            except OSError:
                if not is_other:
                    raise
                return None if isinstance(first, socket.socket) else socket.socketpair()[0]
            if not is_other:
                return found
            if is_number:
                return 0 if found else errno.ECONNREFUSED
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

        return connect

    def _opened(self, original: Any) -> Any:
        def urlopen(*args: Any, **options: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - same
            is_other = self._asked(frame) if is_caught_at(frame) else None
            if is_other is None:
                return original(*args, **options)
            try:
                found = self._inside(lambda: original(*args, **options))
            except OSError:
                if not is_other:
                    raise
                return _Answer()
            if is_other:
                raise urllib.error.URLError(ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
            return found

        return urlopen


def _handle(number: int, handler: Any) -> None:
    """Call the handler of a signal.

    Raises:
        SystemExit: It ends the process, which ends the job.
    """
    try:
        handler(number, sys._getframe(2))  # noqa: SLF001 - same
    except SystemExit as end:
        end.code = _BY_SIGNAL + number  # no rank that is done: the job has ended
        raise


class EndedError(SystemExit):
    """A rank ended its own process, and so the job."""


def _run_down(timer: Any) -> None:
    """Call what a timer calls, unless it has done so or was cancelled."""
    if not timer.finished.is_set():
        timer.finished.set()
        _alone(timer.function, *timer.args, **timer.kwargs)


def _called(handle: Any, call: Any, args: tuple[Any, ...]) -> None:
    handle.cancel()
    _alone(call, *args)


def _alone(call: Any, *args: Any, **options: Any) -> None:
    """Call what ends only its thread by what it raises, and the job if it ends its process.

    Raises:
        EndedError: It does so, by a signal or at once.
    """
    kill, leave, process = os.kill, os._exit, os.getpid()

    def killed(number: int, given: int) -> None:
        if number != process:
            return kill(number, given)
        raise EndedError(_BY_SIGNAL + given)

    def left(code: int) -> None:
        if os.getpid() != process:  # a fork of it
            leave(code)
        raise EndedError(code)

    os.kill, os._exit = killed, left  # type: ignore[assignment]  # until the call has ended
    try:
        (killed if call is kill else left if call is leave else call)(*args, **options)
    except EndedError:
        raise
    except (Exception, SystemExit):  # noqa: BLE001, S110 - a thread ends, whatever it is
        pass
    finally:
        os.kill, os._exit = kill, leave


class _Answer(io.BytesIO):
    """What a server answers that says nothing else but that all is well."""

    status = code = 200
    reason, url, headers = "OK", "", dict[str, str]()

    def getcode(self) -> int:
        """Return the status."""
        return self.status

    def info(self) -> dict[str, str]:
        """Return the headers."""
        return self.headers


def _is_ready(frame: FrameType) -> bool:
    """Tell whether a frame runs under a handler that names too little memory."""
    file = frame.f_code.co_filename
    text = "".join(linecache.getlines(file))
    tree = tree_of(file) if any(word in text for word in _SAYING) else None
    node: ast.AST | None = None if tree is None else tree.at(frame)
    while tree is not None and node is not None:
        above = tree.parents.get(node)
        if isinstance(above, ast.Try) and node in above.body:
            said = "".join(ast.unparse(one) for one in above.handlers)
            if any(word in said for word in _SAYING):
                return True
        node = above
    return False
