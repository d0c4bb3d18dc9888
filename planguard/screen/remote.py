"""What runs elsewhere: one chunk of tasks, bytes in and bytes out.

The same function for every executor that is not ours: a pool, a Ray task, a Dask task. The plans
themselves are answered in a process below it, so one that crashes costs neither the executor's
worker nor the chunk.

A worker may have another environment, and so another PlanGuard, whose rules and whose tasks are
others. Chunks say which one wrote them, and a worker that is another one answers with its own name.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from planguard.errors import UsageError, shorten
from planguard.screen.box import Boxes
from planguard.screen.tasks import SIGNATURE, decode_answers, decode_tasks, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.screen.tasks import Answer, Task

_own = threading.local()


def run_chunk(data: bytes) -> bytes:
    """Answer a chunk; every task has an answer, unless another PlanGuard wrote the chunk.

    Args:
        data: What ``chunk_of`` made of a list of tasks.
    """
    return answered(data, _in_box)


def answered(data: bytes, answer: Callable[[list[Task]], list[Answer]]) -> bytes:
    """Return the answers to a chunk as ``answers_of`` reads them.

    Args:
        data: The chunk.
        answer: Answers its tasks.
    """
    head, _, body = data.partition(b"\n")
    if head != _head():
        return _head() + b"\n"
    return head + b"\n" + encode(answer(decode_tasks(body)))


def _in_box(tasks: list[Task]) -> list[Answer]:
    boxes = getattr(_own, "boxes", None)
    if boxes is None or _own.pid != os.getpid():  # a fork has the pipes of its parent
        boxes = _own.boxes = Boxes()
        _own.pid = os.getpid()
    return list(boxes.run(tasks))


def chunk_of(tasks: Sequence[Task]) -> bytes:
    """Return tasks as the bytes that travel to a worker."""
    return _head() + b"\n" + encode(list(tasks))


def answers_of(data: bytes) -> list[Answer]:
    """Return the answers that a worker sent.

    Raises:
        UsageError: The worker is another PlanGuard, and has decided nothing.
    """
    head, _, body = data.partition(b"\n")
    if head != _head():
        raise UsageError(
            f"a worker has {shorten(head.decode(errors='replace'))}, this is {_head().decode()}",
            hint="install the same PlanGuard on every worker; --resume goes on",
        )
    return decode_answers(body)


def _head() -> bytes:
    from planguard import __version__

    return f"planguard {__version__} ({SIGNATURE})".encode()
