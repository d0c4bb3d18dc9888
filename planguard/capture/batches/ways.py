"""The way of a rank through the program: the lines of the user's files that it executed, in order.

Recorded only when an assignment that is known to be wrong is played again, since it costs a call a
line. A thread that the program starts is not followed: what is told is where the main path parts.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.sources import is_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import FrameType

_MOST = 200_000
"""Lines of a rank that are kept; a decision behind them is not told."""


@dataclass(frozen=True)
class Step:
    """One line that was executed.

    Attributes:
        file: The file.
        line: The line.
        function: The function it stands in.
        depth: Functions of the program on the stack.
        frame: Number of the call of that function.
        issued: Communications that the rank had issued before.
    """

    file: str
    line: int
    function: str
    depth: int
    frame: int
    issued: int

    @property
    def at(self) -> tuple[str, int, int]:
        """What two ranks share that stand on the same line, as deep in the program."""
        return self.file, self.line, self.depth

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@contextmanager
def way_to(file: Path, actions: Sequence[Any]) -> Iterator[None]:
    """Write the lines that the block executes to a file, however it ends.

    Args:
        file: Where they go.
        actions: What the rank has issued; it grows meanwhile.
    """
    rows: list[tuple[str, int, str, int, int, int]] = []
    frames: dict[FrameType, tuple[int, int]] = {}
    calls = [0]

    def depth_of(frame: FrameType) -> int:
        above = frame.f_back
        while above is not None:
            if above in frames:
                return frames[above][1] + 1
            above = above.f_back
        return 0

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and len(rows) < _MOST:
            code, (number, depth) = frame.f_code, frames[frame]
            row = (code.co_filename, frame.f_lineno, code.co_name, depth, number, len(actions))
            rows.append(row)
        elif event == "return":
            frames.pop(frame, None)  # a generator comes back by another call
        return local

    def called(frame: FrameType, _: str, __: Any) -> Any:
        if is_library(frame.f_code.co_filename):
            return None
        calls[0] += 1
        frames[frame] = calls[0], depth_of(frame)
        return local

    before = sys.gettrace()
    sys.settrace(called)
    try:
        with _collector_untold(called):
            yield
    finally:
        sys.settrace(before)
        file.write_text(json.dumps(rows))


@contextmanager
def _collector_untold(called: Any) -> Iterator[None]:
    """Follow no line while the garbage collector runs.

    Finalizers and whoever watches the collector (Hypothesis does) run in the middle of any line, by
    how many objects there are: they decide nothing, and would seem to be called by that line.
    """

    def begins(phase: str, _: object) -> None:
        if phase == "start":
            sys.settrace(None)

    def ends(phase: str, _: object) -> None:
        if phase == "stop":
            sys.settrace(called)

    main = threading.get_ident()

    def of_main(follow: Any) -> Any:
        # Tracing belongs to a thread, and the collector runs in the one that asks for memory.
        def one(phase: str, facts: object) -> None:
            if threading.get_ident() == main:
                follow(phase, facts)

        return one

    first, last = of_main(begins), of_main(ends)
    gc.callbacks.insert(0, first)
    gc.callbacks.append(last)
    try:
        yield
    finally:
        gc.callbacks.remove(first)
        gc.callbacks.remove(last)


def read_way(file: Path) -> list[Step]:
    """Read what ``way_to`` wrote; nothing where the rank's process came to no end."""
    try:
        rows = json.loads(file.read_text())
    except (OSError, ValueError):
        return []
    return [Step(*row) for row in rows]
