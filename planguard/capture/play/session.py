"""Plays one rank of a job that was never started: recording group installed, calls recorded."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from planguard.capture.elsewhere import called_back, note_libraries, watch_elsewhere
from planguard.capture.groups.callbacks import callbacks_aside
from planguard.capture.groups.process_group import BACKEND, stub_work_class
from planguard.capture.groups.recorder import Recorder, Stalled
from planguard.capture.names.thread_orders import KIND
from planguard.capture.play.collected import collected
from planguard.capture.play.fake_world import Mesh, environment, make_mesh
from planguard.capture.play.launches import ranks_started_here
from planguard.capture.play.named_backends import named_backend
from planguard.capture.play.rank_reads import rank_reads, start_reads
from planguard.capture.play.room_store import room_store_class
from planguard.capture.play.stub_control import mail_group_class
from planguard.capture.restarts import START
from planguard.capture.values.own_answers import Answers, assumed, own_answers, unseen
from planguard.capture.values.own_values import Readings
from planguard.capture.values.values import watch_values
from planguard.capture.values.watched import Watched, plain_of, watch
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.capture.play.mailbox import Mailbox
    from planguard.capture.values.own_answers import Odd
    from planguard.capture.values.own_before import Before

_C10D = "torch.distributed.distributed_c10d"
_MODULES = ("torch.distributed", _C10D, "torch.distributed.device_mesh")


class Session:
    """One rank at work.

    Attributes:
        recorder: What it issued so far.
        answers: What it asked of its own machine and process.
        readings: What it read from tensors.
        reads: Places where the code asked for its rank.
        mesh: The DeviceMesh of the capture, None without one.
        backends: The backend that the job asked for, by group.
        named: The backends that its calls name, each with its line.
    """

    def __init__(
        self, rank: int, world_size: int, mailbox: Mailbox, odd: Odd | None = None
    ) -> None:
        self.rank = rank
        self.world_size = world_size
        self.mailbox = mailbox
        self.recorder = Recorder(rank)
        self.recorder.follow_operators()
        self.answers = Answers(rank, odd)
        self.recorder.before_call = self.answers.events.before_call
        self.answers.turns.told_of_end = self.recorder.threads.known_to_end
        self.answers.turns.handle = stub_work_class()
        self.readings = Readings(rank, None if odd is None else odd.sides)
        self.reads: list[str] = []
        self.mesh: Any = None
        self.next_key: str | None = None
        self.backends: dict[Any, str] = {}
        self.named: list[list[str]] = []

    def make_group(self, options: Any, _: Any) -> Any:
        """Make the recording process group that torch asks the backend for."""
        ranks = list(options.global_ranks_in_group) or list(range(self.world_size))
        key, self.next_key = self.next_key, None
        if key is None or self.recorder.groups.get(key) != ranks:
            key = self.recorder.group(ranks)
        return mail_group_class()(self.recorder, ranks, key, self.mailbox)

    def runs_callbacks_aside(self) -> bool:
        """Whether callbacks of futures run in threads of the backend, as gloo's do."""
        return "gloo" in self.backends.values()


@contextmanager
def session(
    rank: int,
    world_size: int,
    mesh: Mesh,
    mailbox: Mailbox,
    *,
    local_size: int | None = None,
    odd: Odd | None = None,
    before: Before | None = None,
) -> Iterator[Session]:
    """Install the recording group for one rank and record until the end of the block.

    Objects, shapes, sizes and small values really come from the other ranks, by the mailbox.
    """
    import torch.distributed as dist

    current = Session(rank, world_size, mailbox, odd)
    with ExitStack() as stack:
        stack.enter_context(environment(rank, world_size, local_size))
        _register(current)
        store = room_store_class()(mailbox, current.recorder)
        dist.init_process_group(BACKEND, rank=rank, world_size=world_size, store=store)
        stack.callback(_leave)
        current.backends[dist.group.WORLD] = "gloo"
        current.mesh = make_mesh(mesh)
        stack.enter_context(_patches(current))
        stack.enter_context(_eagerly())
        stack.enter_context(ranks_started_here())
        stack.enter_context(watch_values(current.recorder, current.readings))
        current.reads = stack.enter_context(rank_reads())
        stack.enter_context(current.recorder.threads.watched())
        stack.enter_context(callbacks_aside(current.recorder, current.runs_callbacks_aside))
        stack.enter_context(current.recorder.buckets.watched())
        stack.enter_context(_elsewhere(current.recorder, lambda: mailbox.is_sending))
        stack.enter_context(start_reads(lambda place: current.answers.is_odd(START, place)))
        stack.enter_context(own_answers(current.answers, before))
        stack.enter_context(collected(current.recorder))
        if not current.answers.sees_sets:
            message = (
                "this interpreter walks a set of text in one order only, the same on every rank: "
                "what depends on that order is not seen"
            )
            current.recorder.note("own-answers", message, "under")
        yield current
        if said := assumed(current.answers):
            current.recorder.note("own-answers", said, "exact")
        if said := unseen(current.answers):
            current.recorder.note("own-answers", said, "under")
        if before is not None and (said := before.said()):
            current.recorder.note("own-answers", said, "exact")
        if said := current.recorder.threads.luck(rank):
            current.recorder.note(KIND, said, "under")
        current.recorder.end_backward()
        current.recorder.end_library()


def _asked_for(backend: Any) -> str:
    """Return the backend for the CPU of what a job asked for; gloo where it asked for nothing."""
    parts = str(backend or "gloo").lower().split(",")
    named = dict(part.split(":", 1) for part in parts if ":" in part)
    return named.get("cpu", next(iter(named.values()), "")) or parts[0]


def _backend(original: Any, current: Session) -> Any:
    """Let ``get_backend`` name what the job asked for; some calls exist for one backend only."""

    def get_backend(group: Any = None) -> Any:
        import torch.distributed as dist

        given = original(group)
        asked = current.backends.get(group if group is not None else dist.group.WORLD)
        return dist.Backend(asked) if asked and given == BACKEND else given

    return get_backend


@contextmanager
def _eagerly() -> Iterator[None]:
    """Run compiled functions as they are: traced through the patches they would break.

    Eagerly they issue the same calls. The compiler takes seconds to import, so that only a job that
    uses it does so.
    """
    import torch

    original = torch.compile

    def force() -> None:
        torch.compiler.set_stance("force_eager")
        undo.append(lambda: torch.compiler.set_stance("default"))

    def compiling(*args: Any, **options: Any) -> Any:
        if not undo:
            force()
        return original(*args, **options)

    undo: list[Callable[[], Any]] = []
    if "torch._dynamo" in sys.modules:
        force()
    torch.compile = compiling
    try:
        yield
    finally:
        torch.compile = original
        for one in undo:
            one()


@contextmanager
def _elsewhere(recorder: Recorder, busy: Callable[[], bool]) -> Iterator[None]:
    """Notice what ranks communicate by other means, until the end of the block."""
    with ExitStack() as stack:

        def put(owner: Any, name: str, value: Any) -> None:
            original, is_own = getattr(owner, name), name in vars(owner)
            stack.callback(
                *((setattr, owner, name, original) if is_own else (delattr, owner, name))
            )
            setattr(owner, name, value)

        watch_elsewhere(put, recorder.note, played=room_store_class())
        stack.enter_context(called_back(recorder.note, Stalled, recorder.leave, busy))
        yield
    note_libraries(recorder.note)


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
        "get_backend": lambda original: _backend(original, current),
        "get_global_rank": _of_sender,
        "_check_not_self_rank": _of_sender,
    }
    undo = []
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
    def init_process_group(backend: Any = None, *_: Any, **options: Any) -> None:
        import torch.distributed as dist

        # A device that may be named here is an accelerator's, and the backend of CUDA's is nccl.
        is_bound = backend is None and options.get("device_id") is not None
        current.backends[dist.group.WORLD] = "nccl" if is_bound else _asked_for(backend)
        current.named.append(named_backend(backend, sys._getframe(1)))  # noqa: SLF001 - the interpreter has no public way
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
        backend: Any = None,
        pg_options: Any = None,
        use_local_synchronization: bool = False,  # noqa: FBT001, FBT002 - torch's own signature
        **rest: Any,
    ) -> Any:
        import torch.distributed as dist

        members = sorted(range(current.world_size) if ranks is None else map(int, ranks))
        key = current.recorder.group(members)
        if not use_local_synchronization:
            current.recorder.created(key)
        elif current.recorder.rank in members:
            current.recorder.met(key)
        current.next_key = key
        if backend is not None:
            current.named.append(named_backend(backend, sys._getframe(1)))  # noqa: SLF001 - same
        made = original(ranks, timeout, None, pg_options, use_local_synchronization, **rest)
        if made is not dist.GroupMember.NON_GROUP_MEMBER:
            current.backends[made] = _asked_for(backend or current.backends[dist.group.WORLD])
        return made

    return new_group


def _batched(original: Any, current: Session) -> Any:
    def batch_isend_irecv(ops: Any) -> Any:
        current.recorder.batch = []
        try:
            return original(ops)
        finally:
            current.recorder.end_batch()

    return batch_isend_irecv


def _of_sender(original: Any) -> Any:
    """Let what torch asks of a sender that is not known be no decision of the program.

    ``recv`` from anybody looks for its number in the world, whoever reads it (torch 2.13).
    """

    def ask(group: Any, rank: Any, *rest: Any) -> Any:
        found = original(group, plain_of(rank), *rest)
        return watch(found, rank.report) if type(rank) is Watched else found

    return ask


def _with_end(original: Any, current: Session) -> Any:
    def backward(tensors: Any, *args: Any, **options: Any) -> Any:
        current.recorder.begin_backward(tensors)
        try:
            result = original(tensors, *args, **options)
        finally:
            current.recorder.leave_backward()
        current.recorder.end_backward()
        return result

    return backward
