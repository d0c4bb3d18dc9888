"""What runs elsewhere: one chunk of tasks, bytes in and bytes out.

The same function for every executor that is not ours: a pool, a Ray task, a Dask task. The plans
themselves are answered in a process below it, so one that crashes costs neither the executor's
worker nor the chunk.
"""

from __future__ import annotations

import os
import threading

from planguard.screen.box import Boxes
from planguard.screen.tasks import decode_tasks, encode

_own = threading.local()


def run_chunk(data: bytes) -> bytes:
    """Answer encoded tasks; every task has an answer.

    Args:
        data: What ``planguard.screen.tasks.encode`` made of a list of tasks.
    """
    boxes = getattr(_own, "boxes", None)
    if boxes is None or _own.pid != os.getpid():  # a fork has the pipes of its parent
        boxes = _own.boxes = Boxes()
        _own.pid = os.getpid()
    return encode(list(boxes.run(decode_tasks(data))))
