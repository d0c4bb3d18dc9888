"""The native frames of this process's main thread: where it stands inside gloo, NCCL or CUDA.

A small library walks the stack in a signal handler (native/preload/stacks.cpp). It is loaded when a
rank is late, never before; without it (no compiler when planguard was installed) there are none.
"""

from __future__ import annotations

import ctypes
import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LIBRARY = "libplanguard_stacks.so"
FRAMES = 64
PATIENCE_MS = 500

_SLEEPS = re.compile(
    r"(?:pthread_cond_\w*wait|epoll_\w*wait|poll|ppoll|(?:clock_)?nanosleep) in lib(?:c|pthread)\b"
)
"""What a thread stands in that waits; other functions of libc, such as memcpy, work. A handle of
NCCL that blocks the host sleeps between two looks (ProcessGroupNCCL.cpp, ``synchronizeInternal``).
"""
_ON_THE_DEVICE = re.compile(r"(?:cuda|cu|hip)(?:Stream|Event|Device|Ctx)Synchronize(?:_\w+)? in ")
_SYSTEM = re.compile(r".* in lib(?:c|pthread|stdc\+\+|c\+\+)\.so")
_OF_CALLS = re.compile(r"(?:c10d::(?:Reducer|Work|ProcessGroup\w*)|gloo(?:::\w+)+)::")
"""Where torch waits for a call: the reducer of DDP, a handle, a backend. Not its stores."""


def native_stack() -> tuple[str, ...]:
    """Return the frames of the main thread as ``function in library``, innermost first.

    Frames of the interpreter are left out: the Python stack says more. Empty when the library is
    not there or the thread does not answer.
    """
    library = _library()
    if library is None:
        return ()
    frames = (ctypes.c_void_p * FRAMES)()
    thread = ctypes.c_long(os.getpid())  # of the main thread on Linux, in a forked process, too
    count = library.planguard_stack(thread, frames, FRAMES, PATIENCE_MS)
    text = ctypes.create_string_buffer(512)
    found = []
    for address in frames[: max(count, 0)]:
        known = library.planguard_symbol(ctypes.c_void_p(address), text, len(text))
        name = text.value.decode(errors="replace") if known else f"{address or 0:#x}"
        if not name.rpartition(" in ")[2].startswith(("libpython", "python")):
            found.append(name)
    return tuple(found)


def waits_in_a_call(frames: tuple[str, ...]) -> bool:
    """Whether native frames, innermost first, show a wait for a communication call.

    Sleeping, and that in the system's libraries alone below torch's own wait: a function in between
    may wait for something else.
    """
    for at, frame in enumerate(frames):
        if not _SYSTEM.match(frame):
            sleeps = any(_SLEEPS.match(inner) for inner in frames[:at])
            return sleeps and _OF_CALLS.match(frame) is not None
    return False


def waits_for_the_device(frames: tuple[str, ...]) -> bool:
    """Whether native frames show a host that waits for what it queued on a GPU.

    That says nothing of a communication: a long kernel is waited for the same way.
    """
    return any(_ON_THE_DEVICE.match(frame) for frame in frames)


@cache
def _library() -> Any:
    """Load the library; it lies beside the compiled kernels."""
    native = find_spec("planguard._native")
    if native is None or native.origin is None:
        return None
    path = Path(native.origin).with_name(LIBRARY)
    try:
        return ctypes.CDLL(str(path)) if path.exists() else None
    except OSError:
        return None
