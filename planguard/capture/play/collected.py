"""What finalizers issue while the garbage collector runs.

Objects that hold each other go when the collector comes by, in the middle of any line: by how many
objects the process has made, which is each rank's own (https://docs.python.org/3/library/gc.html,
``gc.set_threshold``). A call that ``__del__`` or a callback of ``weakref`` issues there has no
place among the others. An object that nobody holds goes at once, and its calls have theirs.
"""

from __future__ import annotations

import gc
import linecache
import threading
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from planguard.sources import file_of, program_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.capture.groups.recorder import Recorder

_WORDS = ("__del__", "weakref")
"""How files say that something is done when an object goes."""


@contextmanager
def collected(recorder: Recorder) -> Iterator[None]:
    """Tell a recorder while the collector runs; run it at the end where the program finalizes.

    Else a program that is too short for the collector would never show what its finalizers issue.
    """

    def watch(phase: str, _: object) -> None:
        recorder.collector = threading.get_ident() if phase == "start" else 0

    gc.callbacks.append(watch)
    try:
        yield
        if finalizes() and not recorder.is_stalled:
            gc.collect()
    finally:
        gc.callbacks.remove(watch)
        recorder.collector = 0


def finalizes() -> bool:
    """Tell whether the program's own files say what is done when an object goes."""
    return any(_names_one(file_of(module)) for module in program_modules())


@lru_cache(maxsize=4096)
def _names_one(file: str) -> bool:
    return any(word in line for line in linecache.getlines(file) for word in _WORDS)
