"""How a rank ends: by what its body raises, what ``atexit`` calls behind it, or ``os._exit``.

A program's own callbacks may communicate, as their rank does it in a real job: while the others
wait, or are gone.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.capture.groups.recorder import Stalled
from planguard.capture.play.fake_compute import NotFakeError
from planguard.capture.play.processes import is_refused, refused_gradients
from planguard.capture.values.own_events import EndedError
from planguard.errors import PlanGuardError
from planguard.sources import is_installed, is_library, is_own, is_program, package_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.capture.groups.recorder import Recorder

KIND = "exit-callbacks"
"""Of the ledger's entries: what libraries would do when the process ends."""
FRAME = re.compile(r'^ *File "(.+)", line (\d+), in ', re.MULTILINE)


@contextmanager
def callbacks_at_exit(recorder: Recorder) -> Iterator[Callable[[], None]]:
    """Keep what is registered with ``atexit`` in the block; gives what calls it, last first.

    What the program's files register is called; of what installed packages register it is said that
    it is not. What a callback raises is printed and ends nothing, as Python does it.
    """
    kept: list[tuple[Any, Any, Any]] = []
    register, unregister = atexit.register, atexit.unregister

    def registered(function: Any, /, *args: Any, **options: Any) -> Any:
        file = sys._getframe(1).f_code.co_filename  # noqa: SLF001 - the interpreter has no public way
        if is_program(file):
            kept.append((function, args, options))
            return function
        if is_installed(file) and package_of(file) != "torch":
            said = f"what {package_of(file)} does when its process ends (atexit) is not played"
            recorder.note(KIND, said, "exact")
        return register(function, *args, **options)

    def unregistered(function: Any) -> None:
        kept[:] = [one for one in kept if one[0] != function]
        unregister(function)

    def call() -> None:
        while kept:
            function, args, options = kept.pop()
            try:
                function(*args, **options)
            except (Stalled, PlanGuardError, KeyboardInterrupt):
                raise
            except BaseException:  # noqa: BLE001 - Python prints whatever it is, and goes on
                traceback.print_exc()

    for name, value in (("register", registered), ("unregister", unregistered)):
        setattr(atexit, name, value)
    try:
        yield call
    finally:
        atexit.register, atexit.unregister = register, unregister


@contextmanager
def leaving_at_once(leave: Callable[[int], None]) -> Iterator[None]:
    """Call a function with the code of ``os._exit`` before this process ends by it.

    Processes that the program forks in the block end as they do.
    """
    original, process = os._exit, os.getpid()

    def leaves(code: int) -> None:
        if os.getpid() == process:
            leave(code)
        original(code)

    os._exit = leaves  # type: ignore[assignment]  # it never returns
    try:
        yield
    finally:
        os._exit = original


def end_of(error: BaseException | None) -> tuple[str, str]:
    """Return how a body ended, in one line, and the frames.

    Raises:
        BaseException: The one given, where it says nothing of the job: it comes from here or from
            ``torch.distributed``, which may lack on a recording group what a real one has.
    """
    if error is None or isinstance(error, Stalled):
        return "", ""
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return "", ""
    if isinstance(error, (PlanGuardError, NotFakeError, KeyboardInterrupt)):
        raise error
    if is_refused(str(error)):
        raise refused_gradients("in a fresh process: planguard precheck FILE") from error
    frames = traceback.extract_tb(error.__traceback__)
    called = frames[:]
    told = OSError, IndexError, EndedError
    while isinstance(error, told) and called and is_own(called[-1].filename):
        called.pop()  # files and parts of tensors are asked for through here (``own_answers``)
    inner = called[-1].filename if called else ""
    if not called or is_own(inner) or (is_library(inner) and "distributed" in Path(inner).parts):
        raise error
    text = "".join(traceback.format_exception(error))[-4000:]
    return f"{type(error).__name__}: {error}", text.strip()


def raised_at(trace: str) -> str:
    """Name the innermost line of the program in the frames of an exception."""
    lines = [(file, line) for file, line in FRAME.findall(trace) if not is_library(file)]
    return f", raised at {':'.join(lines[-1])}" if lines else ""


def note_stuck(recorder: Recorder, error: BaseException | None) -> None:
    """Say that a rank waits for ever, and where; the plan then shows why, or nothing is decided."""
    key = f"the key {recorder.missing!r} of the store, " if recorder.missing else ""
    what = f"{key}which nobody sets" if key else "an object, a value or a shape that nobody sends"
    frames = traceback.extract_tb(None if error is None else error.__traceback__)
    asking = [one for one in frames if not is_library(one.filename)]
    where = f" ({asking[-1].filename}:{asking[-1].lineno})" if asking else ""
    recorder.note("stuck", f"rank {recorder.rank} waits for {what}{where}", "under")
