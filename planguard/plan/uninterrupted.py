"""Moments in which Ctrl-C has to wait."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold SIGINT back from this thread; one that came is delivered at the end.

    For the tenths of a second in which the types of a plan and their decoder are made: msgspec
    0.22 was seen to drop a KeyboardInterrupt there, or to end the process with a segmentation
    fault afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
