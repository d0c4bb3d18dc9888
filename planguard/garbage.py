"""When Python looks for garbage: not while many objects are made that all live on."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector from walking the objects again and again while they are made.

    A plan is made of records that are alive until it is, in no circles: every collection walks all
    of them and finds nothing, which took up to two fifths of a load (docs/benchmarks.md).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
