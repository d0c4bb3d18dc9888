"""Of which files code ran in a rank: those whose tests may have decided something."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class Ran:
    """The files of the functions that are entered from now on, and of those that are open.

    The interpreter runs slower meanwhile, by two to three times.

    Args:
        is_meant: Tells which files count.
    """

    def __init__(self, is_meant: Callable[[str], bool]) -> None:
        self._is_meant = is_meant
        self._seen: dict[str, bool] = {}
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
        while frame is not None:
            self._entered(frame)
            frame = frame.f_back
        threading.settrace(self._entered)
        sys.settrace(self._entered)

    def _entered(self, frame: FrameType, *_: Any) -> None:
        name = frame.f_code.co_filename
        if name not in self._seen:
            self._seen[name] = False  # what is asked below is nobody's code
            self._seen[name] = self._is_meant(name)

    def files(self) -> list[str]:
        """Stop, and return them in the order of the first time."""
        threading.settrace(None)
        sys.settrace(None)
        return [name for name, is_meant in self._seen.items() if is_meant]
