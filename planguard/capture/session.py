"""Plays one rank of a job that was never started: recording group installed, calls recorded."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from planguard.capture.fake_world import Mesh, environment, make_mesh
from planguard.capture.process_group import BACKEND, stub_group_class
from planguard.capture.rank_reads import rank_reads
from planguard.capture.recorder import Recorder, size
from planguard.capture.stub_control import mail_group_class
from planguard.capture.values import watch_values
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.capture.mailbox import Mailbox

_C10D = "torch.distributed.distributed_c10d"
_MODULES = ("torch.distributed", _C10D, "torch.distributed.device_mesh")


class Session:
    """One rank at work.

    Attributes:
        recorder: What it issued so far.
        reads: Places where the code asked for its rank.
        mesh: The DeviceMesh of the capture, None without one.
    """

    def __init__(self, rank: int, world_size: int, mailbox: Mailbox | None = None) -> None:
        self.rank = rank
        self.world_size = world_size
        self.mailbox = mailbox
        self.recorder = Recorder(rank)
        self.reads: list[str] = []
        self.mesh: Any = None
        self.next_key: str | None = None

    def make_group(self, options: Any, _: Any) -> Any:
        """Make the recording process group that torch asks the backend for."""
        ranks = list(options.global_ranks_in_group) or list(range(self.world_size))
        key, self.next_key = self.next_key, None
        if key is None or self.recorder.groups.get(key) != ranks:
            key = self.recorder.group(ranks)
        if self.mailbox is not None:
            return mail_group_class()(self.recorder, ranks, key, self.mailbox)
        return stub_group_class()(self.recorder, ranks, key)


@contextmanager
def session(
    rank: int, world_size: int, mesh: Mesh, mailbox: Mailbox | None = None
) -> Iterator[Session]:
    """Install the recording group for one rank and record until the end of the block.

    With a mailbox, objects, shapes and sizes really come from the other ranks.
    """
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    current = Session(rank, world_size, mailbox)
    with ExitStack() as stack:
        stack.enter_context(environment(rank, world_size))
        _register(current)
        dist.init_process_group(BACKEND, rank=rank, world_size=world_size, store=FakeStore())
        stack.callback(_leave)
        current.mesh = make_mesh(mesh)
        stack.enter_context(_patches(current))
        # A compiled region would be traced through the patches; eagerly it issues the same calls.
        torch.compiler.set_stance("force_eager")
        stack.callback(torch.compiler.set_stance, "default")
        stack.enter_context(watch_values(current.recorder))
        current.reads = stack.enter_context(rank_reads())
        yield current
        current.recorder.end_backward()


def _register(current: Session) -> None:
    import torch.distributed as dist

    name = BACKEND.upper()
    if name in dist.Backend._plugins:  # noqa: SLF001 - torch or the interpreter has no public way
        plugin = dist.Backend._plugins[name]  # noqa: SLF001 - torch or the interpreter has no public way
        dist.Backend._plugins[name] = plugin._replace(creator_fn=current.make_group)  # noqa: SLF001 - torch or the interpreter has no public way
        return
    dist.Backend.register_backend(
        BACKEND, current.make_group, extended_api=True, devices=["cpu", "cuda"]
    )


def _leave() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


@contextmanager
def _patches(current: Session) -> Iterator[None]:
    """Replace the functions whose meaning the process group alone cannot see."""
    import torch

    wrappers: dict[str, Callable[[Any], Any]] = {
        "init_process_group": lambda _: _initialized(current),
        "destroy_process_group": lambda _: _kept,
        "new_group": lambda original: _counted(original, current),
        "batch_isend_irecv": lambda original: _batched(original, current),
        "broadcast_object_list": lambda _: _objects(current, "broadcast"),
        "scatter_object_list": lambda _: _objects(current, "scatter"),
        "recv_object_list": lambda _: _object_received(current),
    }
    undo = []
    if current.mailbox is not None:
        wrappers = {name: wrap for name, wrap in wrappers.items() if "object" not in name}
    for name, wrap in wrappers.items():
        original = getattr(sys.modules[_C10D], name)
        replacement = wrap(original)
        for module in _MODULES:
            owner = sys.modules.get(module)
            if owner is not None and getattr(owner, name, None) is original:
                undo.append((owner, name, original))
                setattr(owner, name, replacement)
    undo.append((torch.autograd, "backward", torch.autograd.backward))
    torch.autograd.backward = _with_end(torch.autograd.backward, current)
    try:
        yield
    finally:
        for owner, name, original in reversed(undo):
            setattr(owner, name, original)


def _initialized(current: Session) -> Any:
    def init_process_group(*_: Any, **options: Any) -> None:
        for name, expected in (("world_size", current.world_size), ("rank", current.rank)):
            given = options.get(name, -1)
            if given not in (-1, expected):
                raise UsageError(
                    f"init_process_group asks for {name}={given}, the precheck plays "
                    f"{name}={expected}",
                    hint="give precheck the world_size of the job, and the body its own rank",
                )

    return init_process_group


def _kept(*_: Any, **__: Any) -> None:
    """Leave the recording group in place; it ends with the capture."""


def _counted(original: Any, current: Session) -> Any:
    def new_group(
        ranks: Any = None,
        timeout: Any = None,
        backend: Any = None,  # noqa: ARG001 - same; the recorder stands in for every backend
        pg_options: Any = None,
        use_local_synchronization: bool = False,  # noqa: FBT001, FBT002 - torch's own signature
        **rest: Any,
    ) -> Any:
        members = sorted(range(current.world_size) if ranks is None else map(int, ranks))
        key = current.recorder.group(members)
        if not use_local_synchronization:
            current.recorder.created(key)
        elif current.recorder.rank in members:
            current.recorder.met(key)
        current.next_key = key
        return original(ranks, timeout, None, pg_options, use_local_synchronization, **rest)

    return new_group


def _batched(original: Any, current: Session) -> Any:
    def batch_isend_irecv(ops: Any) -> Any:
        current.recorder.batch = []
        try:
            return original(ops)
        finally:
            current.recorder.end_batch()

    return batch_isend_irecv


def _objects(current: Session, kind: str) -> Any:
    """Record the two collectives of an object call; what arrives cannot be known."""

    def call(
        objects: Any, source: Any = None, src: Any = None, group: Any = None, **_: Any
    ) -> None:
        import torch
        import torch.distributed as dist

        first = source if isinstance(source, int) else src
        root = int(first or 0)
        pg = group if group is not None else dist.group.WORLD
        counts = torch.zeros(len(objects) if kind == "broadcast" else 1, dtype=torch.int64)
        for fields in (size(counts), {}):
            issued = current.recorder.issue(kind, pg.key, {"root": root, **fields})
            current.recorder.wait(issued)
        own = current.rank == root
        if kind == "scatter" and own and source is not None:
            objects[0] = source[pg.members.index(current.rank)]
        if not own:
            message = f"what {kind}_object_list brings to rank {current.rank} is not known"
            current.recorder.note("object-value", message, "under")

    return call


def _object_received(current: Session) -> Any:
    def recv_object_list(*_: Any, **__: Any) -> None:
        raise UsageError(
            f"rank {current.rank} receives a Python object from another rank, and no other rank is "
            "there to send one",
            hint="a schedule of torch.distributed.pipelining votes and exchanges shapes first; "
            "check it with planguard.check(schedule, planner='pipelining')",
        )

    return recv_object_list


def _with_end(original: Any, current: Session) -> Any:
    def backward(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        current.recorder.end_backward()
        return result

    return backward
