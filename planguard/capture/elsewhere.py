"""Communication that no process group of the job sees: it is said, and never taken for silence.

Ranks may also wait for each other in remote calls (``torch.distributed.rpc``), on a backend that
the program made itself (``ProcessGroupGloo(...)``), on keys of a store, or in another library's
communicators. None of it is in the plan, so that a plan without it is no proof: an entry of the
ledger that leaves the job undecided names the line, or the library that was loaded.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.capture.values.sinks import place_of
from planguard.execution.findings.undecided import UNSEEN
from planguard.sources import is_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_BACKENDS = ("Gloo", "NCCL", "MPI", "UCC", "XCCL")
_WAITS = ("wait", "get", "multi_get", "check", "add", "compare_set")
"""Methods of a store by which a rank learns of another: a wait, or a counter that is polled."""
_LIBRARIES = {
    "mpi4py.MPI": "mpi4py",
    "ray.util.collective": "Ray's collectives",
    "horovod.torch": "Horovod",
    "cupyx.distributed": "CuPy's communicators",
    "ucp": "UCX",
    "ucxx": "UCX",
    "nvshmem.core": "NVSHMEM",
}
"""Modules that communicate by themselves. They are looked for by name, and nothing is imported."""


def watch_elsewhere(
    replace: Callable[[Any, str, Any], None],
    note: Callable[[str, str, str], None],
    played: type | None = None,
    ranked: Callable[[int, int], None] | None = None,
) -> None:
    """Notice communication that no process group of the job sees.

    Args:
        replace: Called with owner, name and the new function.
        note: Called with kind, message and direction of a ledger entry.
        played: Class of the stores whose keys are played, and so are seen.
        ranked: Called with a rank and the number of ranks, before the note, where this process
            takes a place among others without a process group of the job.
    """
    import torch
    import torch.distributed as dist

    seen: set[str] = set()

    def tell(what: str, frame: FrameType | None) -> None:
        where = place_of(frame)
        if where not in seen:
            seen.add(where)
            note(UNSEEN, _message(f"{what} at {where}"), "under")

    def asking(original: Any, what: str, *, by_library: bool, places: int = 0) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
            is_told = by_library or not is_library(frame.f_code.co_filename)
            if is_told and not (played is not None and isinstance(_root(args[0]), played)):
                if places and ranked is not None:
                    ranked(*_place(args[places:], options))
                tell(what, frame)
            return original(*args, **options)

        call.__name__ = getattr(original, "__name__", "call")
        return call

    _watch_rpc(replace, note, asking)
    for name in _BACKENDS:
        kind = getattr(dist, f"ProcessGroup{name}", None)
        if kind is not None:
            what = f"a ProcessGroup{name} that the program made itself"
            replace(kind, "__init__", asking(kind.__init__, what, by_library=False, places=2))
    symmetric: Any = getattr(torch._C._distributed_c10d, "_SymmetricMemory", None)  # noqa: SLF001 - same
    if symmetric is not None:
        met = asking(symmetric.rendezvous, "symmetric memory", by_library=True)
        replace(symmetric, "rendezvous", staticmethod(met))
    for name in _WAITS:
        original = getattr(dist.Store, name, None)
        if original is not None:
            replace(dist.Store, name, asking(original, "a store (a key)", by_library=False))


def _place(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, int]:
    """Return the rank and the number of ranks that a backend or an agent is made with.

    An agent of a group that workers join as they come is told no number.
    """
    row = dict(zip(("rank", "size"), given, strict=False))
    rank = row.get("rank", named.get("rank", named.get("worker_id")))
    size = row.get("size", named.get("size", named.get("world_size")))
    rank = int(rank or 0)
    return rank, max(int(size or 0), rank + 1)


def _watch_rpc(
    replace: Callable[[Any, str, Any], None],
    note: Callable[[str, str, str], None],
    asking: Callable[..., Any],
) -> None:
    """Notice the agents of remote calls, once there are any."""
    import torch

    def agents() -> None:
        agent = torch._C._distributed_rpc.TensorPipeAgent  # noqa: SLF001 - torch has no public way
        made = asking(agent.__init__, "remote calls (rpc)", by_library=True, places=3)
        replace(agent, "__init__", made)

    def prepare(*args: Any) -> Any:
        found = begin(*args)
        agents()
        return found

    rpc = sys.modules.get("torch.distributed.rpc.api")
    begin: Any = getattr(torch._C, "_rpc_init", None)  # noqa: SLF001 - same
    if rpc is not None and hasattr(torch._C, "_distributed_rpc"):  # noqa: SLF001 - same
        if rpc._is_current_rpc_agent_set():  # noqa: SLF001 - same
            note(UNSEEN, _message("remote calls (rpc), initialized before"), "under")
        agents()
    elif begin is not None:  # importing torch.distributed.rpc calls it: then there are agents
        replace(torch._C, "_rpc_init", prepare)  # noqa: SLF001 - same


@contextmanager
def called_back(
    note: Callable[[str, str, str], None],
    leave: Callable[[], BaseException],
    left: Callable[[str], None],
    is_busy: Callable[[], bool],
) -> Iterator[None]:
    """Leave whatever runs when the process is asked to: its time is over, or the play is.

    Args:
        note: Called with kind, message and direction of a ledger entry, where that is a wait in
            remote calls.
        leave: Makes what is raised there.
        left: Called with the line where anything else ran.
        is_busy: Whether the process is in the middle of what must not be left.
    """

    def called(_: int, frame: FrameType | None) -> None:
        if is_busy() or _is_called_by_c(frame):
            # Raised here, it would be handled here again, before anything goes on.
            _thread.start_new_thread(_call_again, (os.getpid(),))
            return
        inner = frame
        while inner is not None and not inner.f_code.co_filename.endswith(_REMOTE):
            inner = inner.f_back
        if inner is None:
            left(place_of(frame))
            raise leave()
        what = f"remote calls (rpc) at {place_of(frame)}: it waited in them until its time was over"
        for direction in ("under", "over"):
            note(UNSEEN, _message(what), direction)
        raise leave()

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can be called
        return
    before = signal.signal(CALL_BACK, called)
    try:
        yield
    finally:
        signal.signal(CALL_BACK, signal.SIG_DFL if before is None else before)


def _call_again(process: int, pause: Callable[[float], None] = time.sleep) -> None:
    """Ask a rank once more, a little later; no thread of the program's, and none that is noted."""
    pause(0.01)
    os.kill(process, CALL_BACK)


def _is_called_by_c(frame: FrameType | None) -> bool:
    """Tell whether native code called what runs, and takes no exception from it."""
    while frame is not None:
        if frame.f_code.co_filename.endswith(_BY_C):
            return True
        frame = frame.f_back
    return False


CALL_BACK = signal.SIGRTMAX - 3
_BY_C = "planguard/capture/names/walk_order.py"
_REMOTE = "torch/distributed/rpc/api.py"


def note_libraries(note: Callable[[str, str, str], None]) -> None:
    """Say which libraries that communicate by themselves this process has loaded."""
    found = {library for module, library in _LIBRARIES.items() if module in sys.modules}
    for library in sorted(found | set(_native())):
        note(UNSEEN, _message(f"{library}, which the process has loaded"), "under")


def _native() -> Iterator[str]:
    """Name native libraries that communicate beside torch, loaded by whatever extension.

    An MPI that nobody initialized communicates nothing (h5py may bring one). NVSHMEM is not told by
    its file: CUDA builds of torch bring it, used or not.
    """
    try:
        rows = _MAPS.read_text(errors="replace").splitlines()
    except OSError:
        return
    files = {row.rpartition(" ")[2] for row in rows if ".so" in row}
    for file in files:
        name = Path(file).name
        if name.startswith("libucp.so"):
            yield "UCX"
        elif name.startswith("libmpi.so") and _is_initialized(file):
            yield "MPI"


_MAPS = Path("/proc/self/maps")


def _is_initialized(file: str) -> bool:
    """Tell whether somebody has called MPI_Init in a library that is loaded."""
    flag = ctypes.c_int(0)
    try:
        ctypes.CDLL(file, mode=os.RTLD_NOLOAD | os.RTLD_NOW).MPI_Initialized(ctypes.byref(flag))
    except (OSError, AttributeError):
        return True  # it cannot be asked
    return bool(flag.value)


def _root(store: Any) -> Any:
    """Return the store behind those that only put a prefix in front of its keys."""
    inner = getattr(store, "underlying_store", None)
    return store if inner is None else _root(inner)


def _message(what: str) -> str:
    return (
        f"ranks may also communicate, or wait for each other, by {what}; no process group of the "
        "job sees it, so that it is in no plan"
    )
