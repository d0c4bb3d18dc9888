"""Records a real run: one call before ``init_process_group``, or none with ``planguard dryrun``.

Above 400 lines: everything that is replaced in torch for a recording, and put back together.
"""

from __future__ import annotations

import atexit
import inspect
import multiprocessing.process
import multiprocessing.util
import os
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.arguments import FLAG, PATH, SIZE, WHOLE, arguments
from planguard.capture.elsewhere import note_libraries, watch_elsewhere
from planguard.capture.groups.callbacks import watch_callbacks
from planguard.capture.groups.process_group import BACKEND
from planguard.capture.restarts import attempt
from planguard.capture.run.backends import asked_for, configured, inner_group, named, of_devices
from planguard.capture.run.environment import (
    BYTES,
    FOLDER,
    FRAMES_KEPT,
    VALUES,
    WITNESS,
    shared_name,
)
from planguard.capture.run.grad_hooks import watch_hooks
from planguard.capture.run.log import BACKEND_NOTE, MOST_BYTES, Kind, RunLogWriter
from planguard.capture.run.record_group import record_group_class
from planguard.capture.run.recorder import FRAMES, RunRecorder
from planguard.capture.run.threads import watch_threads
from planguard.capture.values.value_reads import watch_reads
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.capture.run.held import Followed

_C10D = "torch.distributed.distributed_c10d"
_MODULES = (
    "torch.distributed",
    _C10D,
    "torch.distributed.device_mesh",
    "torch.distributed.pipelining.schedules",
)


@dataclass
class Run:
    """The recording of this process.

    Attributes:
        folder: Where the log goes.
        recorder: Made with the first group.
        wanted: Backend that the program asked for, for the group being made.
        default: Backend of the default group.
        device: Device that the group being made is bound to.
        early: Ledger entries from before the first group.
        alone: Holds them where the process has a rank, and no group.
    """

    folder: Path
    witness: bool
    frames: int
    most_bytes: int
    values: bool = False
    recorder: RunRecorder | None = None
    wanted: str | None = None
    default: str = "gloo"
    device: Any = None
    next_key: str | None = None
    modes: list[Any] = field(default_factory=list)
    undo: list[Callable[[], None]] = field(default_factory=list)
    early: list[tuple[str, str, str]] = field(default_factory=list)
    alone: RunRecorder | None = None

    def note(self, kind: str, message: str, direction: str) -> None:
        """Add a ledger entry, to the log that there is or the one that may come."""
        if self.recorder is None:
            self.early.append((kind, message, direction))
        recorder = self.recorder or self.alone
        if recorder is not None:
            recorder.note(kind, message, direction)


_run: Run | None = None


@arguments(folder=PATH, witness=FLAG, frames=WHOLE, most_bytes=SIZE, values=FLAG)
def start(
    folder: str | os.PathLike[str] = "planguard-run",
    *,
    witness: bool = False,
    frames: int = FRAMES,
    most_bytes: int = MOST_BYTES,
    values: bool = False,
) -> None:
    """Record everything that this process communicates from ``init_process_group`` on.

    Every rank writes ``rankR-PID.pgrun`` into the folder; ``planguard check FOLDER`` reads it. A
    process that is killed leaves what it wrote.

    Args:
        folder: Where the log goes.
        witness: Let torch's dispatcher write the calls down a second time, for a comparison; costs
            a few microseconds for every operator.
        frames: Frames of a call stack that are kept; 0 keeps none and saves time.
        most_bytes: Size that the log may reach; what comes later is counted as missing.
        values: Record a few elements of what every call moves: calls of one size that changed
            places are told apart where ranks hold the same data. On a device it waits for it.

    Raises:
        UsageError: A process group exists already, or this process is recorded already.
    """
    global _run  # noqa: PLW0603 - a process has one recording
    import torch.distributed as dist

    if _run is not None:
        raise UsageError("this process is recorded already", hint="call start() once")
    if dist.is_initialized():
        raise UsageError(
            "torch.distributed is already initialized",
            hint="call planguard.capture.start() before init_process_group",
        )
    _run = Run(Path(folder), witness, frames, most_bytes, values)
    _register(_run)
    _patch(_run)
    atexit.register(_at_exit)
    _watch_exceptions(_run)


def start_from_environment() -> None:
    """Start as ``planguard dryrun`` asked for in the environment; nothing without it."""
    import torch.distributed as dist

    folder = os.environ.get(FOLDER)
    if folder and _run is None and dist.is_available():
        start(
            folder,
            witness=os.environ.get(WITNESS) == "1",
            frames=int(os.environ.get(FRAMES_KEPT, FRAMES)),
            most_bytes=int(os.environ.get(BYTES, MOST_BYTES)),
            values=os.environ.get(VALUES) == "1",
        )


def stop() -> Path | None:
    """End the recording and return the log; None when nothing was recorded."""
    global _run
    run, _run = _run, None
    if run is None:
        return None
    for restore in reversed(run.undo):
        restore()
    for mode in reversed(run.modes):
        mode.__exit__(None, None, None)
    atexit.unregister(_at_exit)
    return _end(run)


def _at_exit() -> None:
    if _run is not None:
        _end(_run)


def _end(run: Run) -> Path | None:
    recorder = run.recorder or run.alone
    if recorder is None:
        return None
    note_libraries(recorder.note)
    recorder.log.end()
    return recorder.log.path


def _in_child() -> None:
    """Forget the log of the process that this one was forked from: it is that one's alone."""
    if _run is not None:
        _run.recorder = _run.alone = None
        _run.early.clear()
        _run.next_key = _run.wanted = None


os.register_at_fork(after_in_child=_in_child)


def _watch_exceptions(run: Run) -> None:
    """Notice the exception that ends this process, or the target of a child that was started.

    ``multiprocessing`` reports what its target raises by itself, and torch's ``spawn`` turns it
    into an exit code; neither asks ``sys.excepthook``.
    """
    original = sys.excepthook
    kind: Any = multiprocessing.process.BaseProcess
    target = kind.run

    def running(self: Any) -> None:
        try:
            target(self)
        except BaseException as error:
            is_end = isinstance(error, SystemExit) and error.code in (None, 0)
            if not is_end:
                _failed(run)
            raise

    _set(run, kind, "run", running)

    def hook(kind: Any, error: Any, trace: Any) -> None:
        _failed(run)
        original(kind, error, trace)

    sys.excepthook = hook
    run.undo.append(lambda: setattr(sys, "excepthook", original))


def _failed(run: Run) -> None:
    recorder = run.recorder or run.alone
    if recorder is not None:
        recorder.log.failed()


def _stand_alone(run: Run, rank: int, world: int) -> None:
    """Begin the log of a process that communicates, and has made no process group so far."""
    if run.recorder is None and run.alone is None:
        log = _log(run, rank, world, has_group=False)
        run.alone = RunRecorder(rank, log, frames=run.frames)
        for entry in run.early:
            run.alone.note(*entry)


def _log(of: Run, rank: int, world: int, **more: Any) -> RunLogWriter:
    log = RunLogWriter(of.folder, rank, world, most_bytes=of.most_bytes, attempt=attempt(), **more)
    # A process of multiprocessing ends without the interpreter's own end.
    multiprocessing.util.Finalize(None, _at_exit, exitpriority=0)
    return log


def _register(run: Run) -> None:
    import torch.distributed as dist

    def make(options: Any, backend_options: Any) -> Any:
        return _make_group(run, options, backend_options)

    name = BACKEND.upper()
    plugins = dist.Backend._plugins  # noqa: SLF001 - torch has no public way
    if name in plugins:
        plugins[name] = plugins[name]._replace(creator_fn=make)
        return
    dist.Backend.register_backend(BACKEND, make, extended_api=True, devices=["cpu", "cuda"])


def _make_group(run: Run, options: Any, backend_options: Any) -> Any:
    """Make the group that torch asks the backend for, with the real one inside."""
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    if run.recorder is None:
        if run.alone is not None:
            run.alone.log.path.unlink(missing_ok=True)  # the log of the group has what it says
            run.alone = None
        rank, world = options.group_rank, options.group_size
        log = _log(run, rank, world, run=shared_name(options.store))
        run.recorder = RunRecorder(rank, log, frames=run.frames, values=run.values)
        run.recorder.note(BACKEND_NOTE, of_devices(run.default), "exact")
        for entry in run.early:
            run.recorder.note(*entry)
        run.early.clear()
        run.recorder.callbacks_run_aside = "gloo" in of_devices(run.default)
        if run.witness:
            _enter(run, _witnessed(run))
    key, run.next_key = run.next_key, None
    if key is None or run.recorder.groups.get(key) != ranks:
        key = run.recorder.group(ranks)
    run.recorder.names[options.group_id] = key
    backend = run.wanted or run.default
    inner = inner_group(backend, options, backend_options, run.device)
    group = record_group_class()(run.recorder, ranks, key, inner, backend)
    if run.device is not None:
        group.bound_device_id = run.device
    return group


@contextmanager
def _witnessed(run: Run) -> Iterator[None]:
    """Let the dispatcher write down the calls of this thread, once, where that was asked for."""
    if not run.witness or run.recorder is None or getattr(_thread, "is_witnessed", False):
        yield
        return
    from planguard.capture.run.dispatch import witness_mode

    _thread.is_witnessed = True
    try:
        with witness_mode(run.recorder):
            yield
    finally:
        _thread.is_witnessed = False


_thread = threading.local()


def _enter(run: Run, mode: Any) -> None:
    mode.__enter__()
    run.modes.append(mode)


# --- what the group alone cannot see -------------------------------------------------------------


def _patch(run: Run) -> None:
    import torch

    wrappers: dict[str, Callable[[Any], Any]] = {
        "init_process_group": lambda original: _initializing(original, run),
        "new_group": lambda original: _counted(original, run),
        "_new_process_group_helper": lambda original: _bound(original, run),
        "_get_default_timeout": lambda original: _patient(original, run),
        "batch_isend_irecv": lambda original: _batched(original, run),
        "get_backend": named,
        "get_backend_config": configured,
    }
    for name, wrap in wrappers.items():
        original = getattr(sys.modules[_C10D], name)
        replacement = wrap(original)
        for module in _MODULES:
            owner = sys.modules.get(module)
            if owner is not None and getattr(owner, name, None) is original:
                _set(run, owner, name, replacement)
    _set(run, torch.autograd, "backward", _with_end(torch.autograd.backward, run))

    def tell(kind: Kind, number: int) -> None:
        if run.recorder is not None:
            run.recorder.log.small(kind, number)

    def replace(owner: Any, name: str, value: Any) -> None:
        if run is _run:  # a handle may outlive the recording, and ask for it then
            _set(run, owner, name, value)

    def following() -> Followed | None:
        if run.recorder is None:
            return None
        mode = run.recorder.follow()
        if mode is not None:
            _enter(run, mode)
        return run.recorder.followed

    @contextmanager
    def entered() -> Iterator[None]:
        with ExitStack() as stack:
            if run.recorder is not None:
                stack.enter_context(run.recorder.in_callback())
                stack.enter_context(_witnessed(run))  # a thread of the backend has no witness yet
            yield

    watch_hooks(replace, following)
    watch_callbacks(replace, entered)
    watch_reads(replace, run.note)
    watch_threads(replace, tell, lambda: _witnessed(run))
    watch_elsewhere(replace, run.note, ranked=lambda *place: _stand_alone(run, *place))


def _set(run: Run, owner: Any, name: str, value: Any) -> None:
    # The descriptor itself: what getattr gives would lose its binding when it is put back.
    inherited = name not in vars(owner)
    original = None if inherited else vars(owner)[name]

    def restore() -> None:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)

    run.undo.append(restore)
    setattr(owner, name, value)


def _initializing(original: Any, run: Run) -> Any:
    parameters = inspect.signature(original)

    def init_process_group(backend: Any = None, *args: Any, **options: Any) -> Any:
        given = parameters.bind(backend, *args, **options).arguments
        run.default = asked_for(backend, given.get("device_id"))
        run.wanted = None
        return original(BACKEND, *args, **options)

    return init_process_group


def _bound(original: Any, run: Run) -> Any:
    """Keep the device that torch binds a group to: it tells a group that it throws away."""
    parameters = inspect.signature(original)

    def _new_process_group_helper(*args: Any, **options: Any) -> Any:
        run.device = parameters.bind(*args, **options).arguments.get("device_id")
        try:
            return original(*args, **options)
        finally:
            run.device = None

    return _new_process_group_helper


def _patient(original: Any, run: Run) -> Any:
    """Give a group the patience of the backend that it has behind the recorder: NCCL's is less."""

    def _get_default_timeout(backend: Any) -> Any:
        is_ours = str(backend) == BACKEND
        return original((run.wanted or run.default) if is_ours else backend)

    return _get_default_timeout


def _counted(original: Any, run: Run) -> Any:
    def new_group(
        ranks: Any = None,
        timeout: Any = None,
        backend: Any = None,
        pg_options: Any = None,
        use_local_synchronization: bool = False,  # noqa: FBT001, FBT002 - torch's own signature
        **rest: Any,
    ) -> Any:
        import torch.distributed as dist

        if run.recorder is not None:
            world = range(dist.get_world_size())
            members = sorted(world if ranks is None else map(int, ranks))
            run.next_key = run.recorder.group(members)
            if not use_local_synchronization:
                run.recorder.created(run.next_key)
            elif run.recorder.rank in members:
                run.recorder.met(run.next_key)
        run.wanted = None if backend is None else str(backend).lower()
        try:
            return original(ranks, timeout, None, pg_options, use_local_synchronization, **rest)
        finally:
            run.wanted = run.next_key = None

    return new_group


def _batched(original: Any, run: Run) -> Any:
    def batch_isend_irecv(ops: Any) -> Any:
        import torch.distributed as dist

        group = (ops[0].group if ops else None) or dist.group.WORLD
        if run.recorder is None or not isinstance(group, record_group_class()):
            return original(ops)
        device = ops[0].tensor.device
        joined = group._get_backend(device).supports_coalescing  # noqa: SLF001 - as torch does
        run.recorder.begin_batch()
        try:
            if not joined:
                return original(ops)
            group.inner._start_coalescing(device)  # noqa: SLF001 - as torch does
            works = original(ops)
            inner = group.inner._end_coalescing(device)  # noqa: SLF001 - as torch does
        finally:
            run.recorder.end_batch()
        for work in works:
            work.inner = inner
        return works[:1]

    return batch_isend_irecv


def _with_end(original: Any, run: Run) -> Any:
    def backward(tensors: Any, *args: Any, **options: Any) -> Any:
        if run.recorder is None:
            return original(tensors, *args, **options)
        run.recorder.begin_backward(tensors)
        try:
            result = original(tensors, *args, **options)
        except BaseException:
            run.recorder.leave_backward()
            raise
        run.recorder.end_backward()
        return result

    return backward
