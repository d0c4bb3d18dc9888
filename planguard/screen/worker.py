"""``python -m planguard.screen.worker``: answers tasks from stdin on stdout until stdin ends.

A process of its own for plans that hang, crash or eat memory: whatever happens here costs the plan
at hand. Frames are four bytes of length and MessagePack.
"""

from __future__ import annotations

import contextlib
import gc
import os
import struct
import sys
from typing import TYPE_CHECKING

from planguard.screen.checking import answer
from planguard.screen.tasks import decode_tasks, encode

if TYPE_CHECKING:
    from typing import BinaryIO

HEAD = struct.Struct("<I")
PR_SET_PDEATHSIG = 1
SIGKILL = 9
MIB = 1 << 20
YOUNG = 20_000
"""Objects after which the youngest are looked through for garbage; a plan has thousands."""


def main() -> int:
    """Serve until stdin ends, and return the exit code."""
    _die_with_parent()
    # What an adapter prints must not get between the frames.
    frames = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    _warm_up()
    frames.write(HEAD.pack(0))
    limited = False
    while (data := read_frame(sys.stdin.buffer)) is not None:
        for task in decode_tasks(data):
            if not limited:
                limit_memory(task.limits.memory_mb)
                limited = True
            said = answer(task)
            body = encode([said])
            try:
                frames.write(HEAD.pack(len(body)) + body)
            except BrokenPipeError:  # nobody listens any more
                return 0
            if said.last:
                return 0
    return 0


def _warm_up() -> None:
    """Import what every plan needs, so that the first one does not pay for it."""
    import planguard.engine
    import planguard.guard.signature
    import planguard.loading
    import planguard.plan.format  # noqa: F401

    gc.freeze()  # what is imported stays: no collection has to walk over it
    gc.set_threshold(YOUNG)


def read_frame(stream: BinaryIO) -> bytes | None:
    """Return the next frame, or None at the end of the stream."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    size = HEAD.unpack(head)[0]
    body = stream.read(size)
    return body if len(body) == size else None


def limit_memory(mib: int) -> None:
    """Let this process use so many MiB of address space beyond what it has now."""
    if not mib or not sys.platform.startswith("linux"):
        return
    import resource
    from pathlib import Path

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + mib * MIB
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _die_with_parent() -> None:
    """A check that hangs must not outlive a caller that was killed; on Linux, its thread."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    parent = os.getppid()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
