"""The stub group whose control plane is real: small values come from the other ranks.

Everything else is recorded, made up as in ``process_group``, and marked as made up. What a call
brings arrives when its handle is waited for, as on a real backend, so a receive may be posted
before the send it waits for; until then the result is marked, too.
"""

from __future__ import annotations

import zlib
from functools import cache, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from planguard.capture.groups.process_group import _Collectives, stub_group_class
from planguard.capture.groups.recorder import Stalled
from planguard.capture.play.exchanges import EXCHANGES, Exchange, OtherSizeError, put
from planguard.capture.play.mailbox import Gather, Take, origins_in
from planguard.capture.values.agreed import SYMMETRIC
from planguard.capture.values.made_up import expect, mark
from planguard.capture.values.origins import arrived, tell
from planguard.capture.values.sinks import place_of
from planguard.capture.values.watched import watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from planguard.capture.play.mailbox import Mailbox

ANY_SOURCE = "any-source"
"""Of the ledger's entries: what a program makes of who sent a message."""
REDUCING = frozenset(name for name in EXCHANGES if "reduce" in name)
"""What hides what each rank gave."""
PARTING = frozenset(
    name for name in EXCHANGES if "scatter" in name or name.startswith(("alltoall", "all_to_all"))
)
"""What gives each rank something else, which others know."""
SAME = {
    "_allgather_base": "all_gather_single",
    "allgather_into_tensor_coalesced": "all_gather_single_coalesced",
    "_reduce_scatter_base": "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced",
    "alltoall_base": "all_to_all_single",
    "gather_into_tensor": "gather_single",
}
"""Older names and the newer ones."""


@cache
def mail_group_class() -> Any:
    """Return the process group class; made at the first call, since torch must be imported."""

    class MailGroup(_Control, stub_group_class()):  # type: ignore[misc]  # torch is Any here
        def __init__(self, recorder: Any, ranks: list[int], key: str, mailbox: Mailbox) -> None:
            super().__init__(recorder, ranks, key)
            self.mailbox = mailbox
            self.calls = 0
            self.messages: dict[tuple[int, int, int], int] = {}
            self.launched: list[Any] | None = None

    for name in EXCHANGES:
        setattr(MailGroup, name, _exchanging(name))
    for old, new in SAME.items():
        setattr(MailGroup, old, getattr(MailGroup, new))
    return MailGroup


class _Control(_Collectives):
    """Messages, and what all exchanges share."""

    mailbox: Mailbox
    calls: int
    messages: dict[tuple[int, int, int], int]
    launched: list[Any] | None

    def send(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        """Record a send, and send what belongs to the control plane."""
        work = super().send(tensors, peer, tag)
        tell(tensors, is_sent=True)
        self.mailbox.send(self._message(self.recorder.rank, self.members[peer], tag), tensors)
        return work

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        """Record a receive; what belongs to the control plane is there after the wait."""
        work = super().recv(tensors, peer, tag)
        tell(tensors, is_sent=False)
        src = self.members[peer]
        key = self._message(src, self.recorder.rank, tag)
        if self.mailbox.is_control(tensors):
            self._later(work, tensors, Take(key, src), lambda data: put(tensors, data), origins_in)
        else:
            mark(tensors)
        return work

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Record a receive from anyone; who sends is not known, so neither is what arrives."""
        work = super().recv_anysource(tensors, tag)
        tell(tensors, is_sent=False)
        mark(tensors)
        others = [place for place, rank in enumerate(self.members) if rank != self.recorder.rank]
        work.sender = watch(next(iter(others), 0), self._sender_decides)
        return work

    def _sender_decides(self, frame: Any) -> None:
        said = (
            "which rank's message comes first to a receive from any rank is not played, and the "
            f"program decides on it at {place_of(frame)}"
        )
        for direction in ("under", "over"):
            self.recorder.note(ANY_SOURCE, said, direction)

    def monitored_barrier(self, *_: Any, **__: Any) -> None:
        """Record the barrier of gloo that says who is missing; it waits like any other."""
        self._note_monitored()
        self.barrier().wait()

    def barrier(self, opts: Any = None, **options: Any) -> Any:
        """Record a barrier; it brings nothing, but what comes behind it comes later everywhere.

        The store is where that shows. The wait is soft: that a barrier hangs is told by the plan.
        """
        self.calls += 1
        key = (self.key, self.calls, "barrier")
        self.mailbox.post(key, ())
        work = super().barrier(opts, **options)
        members = tuple(self.members)
        self._later(work, (), Gather(key, members, members), lambda _: None, is_soft=True)
        return work

    def _message(self, src: int, dst: int, tag: int) -> tuple[Any, ...]:
        pair = (src, dst, tag)
        self.messages[pair] = self.messages.get(pair, 0) + 1
        return (self.key, *pair, self.messages[pair])

    def _ask(self, wanted: Gather | Take, *, soft: bool) -> Any:
        """Return what arrived, None for nothing: then this rank goes on with what is made up.

        A rank that is stuck is stuck for good. What it would do next is recorded as far as it rests
        on no value, since it tells why: two ranks that enter two groups in opposite orders.
        """
        try:
            return self.mailbox.ask(wanted, soft=soft)
        except Stalled:
            self._stall()
            return None

    def _stall(self) -> None:
        """Take this rank for stuck; others get nothing more of it."""
        self.recorder.is_stalled = self.mailbox.is_stalled = True

    def _start_coalescing(self, device: Any) -> None:
        self.launched = []
        super()._start_coalescing(device)

    def _end_coalescing(self, device: Any) -> Any:
        work = super()._end_coalescing(device)
        inner, self.launched = self.launched or [], None

        def arrive(*, soft: bool = False) -> None:
            for one in inner:
                one.arrive(soft=soft)

        work.arrive = arrive
        return work

    def _later(
        self,
        work: Any,
        tensors: Sequence[Any],
        wanted: Gather | Take,
        make: Callable[[Any], None],
        origins: Callable[[Any], Iterable[int]] | None = None,
        *,
        is_soft: bool = False,
        is_common: bool = False,
    ) -> None:
        """Let the handle fetch what arrives, once; until then the tensors are marked.

        A soft fetch is one for which a real run would not wait here: if nobody can go on, what
        should have arrived is made up.

        Args:
            work: The handle.
            tensors: What is written.
            wanted: What is waited for.
            make: Writes it.
            origins: Of what comes, what the tensors are made of; None where all ranks have it.
            is_soft: The fetch is soft.
            is_common: It is the same on all ranks.
        """
        todo = [wanted]
        expect(tensors, 1)

        def arrive(*, soft: bool = False) -> None:
            if not todo:
                return
            todo.pop()
            data = self._ask(wanted, soft=soft or is_soft)
            expect(tensors, -1)
            try:
                if data is not None:
                    make(data)
            except OtherSizeError:
                self._stall()
                data = None
            if data is None:
                mark(tensors)
            else:
                made_of = repeat(None) if origins is None else origins(data)
                arrived(tensors, origins=made_of, is_common=is_common)

        work.arrive = arrive
        if self.launched is not None:
            self.launched.append(work)

    def _made_from(self, name: str, root: int | None, data: dict[int, bytes]) -> Iterable[int]:
        """Return what a collective makes its results of: the root's, or all that was given."""
        if name == "broadcast" and root is not None:
            return origins_in(data[root])
        given = [origins_in(data[member]) for member in self.members if member in data]
        place = self.members.index(self.recorder.rank) if name in PARTING else 0
        return repeat(zlib.crc32(repr((given, place)).encode()))


def _exchanging(name: str) -> Any:
    """Return a method that records a collective and makes it real where it is control."""
    record = getattr(_Collectives, name)
    read = EXCHANGES[name]

    def call(self: Any, *args: Any, **options: Any) -> Any:
        import torch.distributed as dist

        self.calls += 1
        key = (self.key, self.calls, name)
        exchange: Exchange = read(self, *args, **options)
        peers = len(self.members) - 1  # who is alone in its group tells nobody
        if exchange.sent is not None:
            self.mailbox.post(key, exchange.sent)
            tell(exchange.sent if name not in REDUCING and peers else (), is_sent=True)
        tell((exchange.outputs or ()) if name in PARTING and peers else (), is_sent=False)
        work = record(self, *args, **options)
        if exchange.outputs is None:
            return work
        if exchange.make is None or not self.mailbox.is_control(exchange.control or ()):
            mark(exchange.outputs)
            return work
        needs = tuple(self.members) if exchange.root is None else (exchange.root,)
        wanted = Gather(key, tuple(self.members), needs)
        is_common = name in SYMMETRIC and len(self.members) == dist.get_world_size()
        origins = None if is_common else partial(self._made_from, name, exchange.root)
        self._later(work, exchange.outputs, wanted, exchange.make, origins, is_common=is_common)
        return work

    call.__name__ = name
    return call
