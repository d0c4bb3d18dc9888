"""The stub group whose control plane is real: small values come from the other ranks.

Everything else is recorded, made up as in ``process_group``, and marked as made up. What a call
brings arrives when its handle is waited for, as on a real backend, so a receive may be posted
before the send it waits for; until then the result is marked, too.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import TYPE_CHECKING, Any

from planguard.capture.made_up import expect, is_marked, mark
from planguard.capture.mailbox import Gather, Take, fill, is_control, unpack
from planguard.capture.process_group import _Collectives, _list, _reduce_op, stub_group_class
from planguard.capture.recorder import Stalled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.capture.mailbox import Mailbox

SAME = {
    "_allgather_base": "all_gather_single",
    "allgather_into_tensor_coalesced": "all_gather_single_coalesced",
    "_reduce_scatter_base": "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced",
    "alltoall_base": "all_to_all_single",
    "gather_into_tensor": "gather_single",
}
"""Older names and the newer ones."""
SCALED = "premul_sum"
"""The reduction whose factor is not read: its result is made up."""
# ruff: noqa: ARG001 - every reading has the signature of torch's method


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

    for name in _EXCHANGES:
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
        self.mailbox.send(self._message(self.recorder.rank, self.members[peer], tag), tensors)
        return work

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        """Record a receive; what belongs to the control plane is there after the wait."""
        work = super().recv(tensors, peer, tag)
        src = self.members[peer]
        key = self._message(src, self.recorder.rank, tag)
        if is_control(tensors):
            self._later(work, tensors, Take(key, src), lambda data: _put(tensors, data))
        else:
            mark(tensors)
        return work

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Record a receive from anyone; who sends is not known, so neither is what arrives."""
        work = super().recv_anysource(tensors, tag)
        mark(tensors)
        return work

    def monitored_barrier(self, *_: Any, **__: Any) -> None:
        """Record the barrier of gloo that says who is missing; it waits like any other."""
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
            self.recorder.is_stalled = True
            return None

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
        *,
        is_soft: bool = False,
    ) -> None:
        """Let the handle fetch what arrives, once; until then the tensors are marked.

        A soft fetch is one for which a real run would not wait here: if nobody can go on, what
        should have arrived is made up.
        """
        todo = [wanted]
        expect(tensors, 1)

        def arrive(*, soft: bool = False) -> None:
            if not todo:
                return
            todo.pop()
            data = self._ask(wanted, soft=soft or is_soft)
            expect(tensors, -1)
            if data is None:
                mark(tensors)
            else:
                make(data)

        work.arrive = arrive
        if self.launched is not None:
            self.launched.append(work)


def _put(tensors: Sequence[Any], data: bytes) -> None:
    for tensor, flat in zip(tensors, unpack(data, tensors), strict=False):
        fill(tensor, flat)


class _Exchange:
    """One collective: what is sent, who must have sent, what is made of it.

    Attributes:
        sent: What this rank contributes, None for nothing.
        outputs: What this rank gets, None for nothing.
        control: What tells whether the result is part of the control plane.
        root: The one member whose contribution counts; None for all.
        make: From contributions by rank to nothing; fills the outputs. None: they are made up.
    """

    def __init__(
        self,
        sent: Sequence[Any] | None,
        outputs: Sequence[Any] | None,
        make: Callable[[dict[int, bytes]], None] | None,
        *,
        control: Sequence[Any] | None = None,
        root: int | None = None,
    ) -> None:
        self.sent = sent
        self.outputs = outputs
        self.control = outputs if control is None else control
        self.make = make
        self.root = root


def _exchanging(name: str) -> Any:
    """Return a method that records a collective and makes it real where it is control."""
    record = getattr(_Collectives, name)
    read = _EXCHANGES[name]

    def call(self: Any, *args: Any, **options: Any) -> Any:
        self.calls += 1
        key = (self.key, self.calls, name)
        exchange: _Exchange = read(self, *args, **options)
        if exchange.sent is not None:
            self.mailbox.post(key, exchange.sent)
        work = record(self, *args, **options)
        if exchange.outputs is None:
            return work
        if exchange.make is None or not is_control(exchange.control or ()):
            mark(exchange.outputs)
            return work
        needs = tuple(self.members) if exchange.root is None else (exchange.root,)
        wanted = Gather(key, tuple(self.members), needs)
        self._later(work, exchange.outputs, wanted, exchange.make)
        return work

    call.__name__ = name
    return call


def _reduced(posts: dict[int, bytes], like: Sequence[Any], op: str) -> list[Any]:
    """Reduce the contributions of all members, tensor by tensor; one that is made up marks all."""
    import torch

    parts = [unpack(data, like) for data in posts.values()]
    size = len(parts)
    two: dict[str, Callable[[Any, Any], Any]] = {
        "sum": torch.add,
        "avg": torch.add,
        "product": torch.mul,
        "min": torch.minimum,
        "max": torch.maximum,
        "band": torch.bitwise_and,
        "bor": torch.bitwise_or,
        "bxor": torch.bitwise_xor,
    }
    found = []
    for column in zip(*parts, strict=True):
        least = min(one.numel() for one in column)  # sizes that differ are told by the plan
        result = reduce(two[op], [one[:least] for one in column])
        if op == "avg":
            result = result / size if result.is_floating_point() else result // size
        if any(map(is_marked, column)):
            mark([result])
        found.append(result)
    return found


def _allreduce(self: Any, tensors: Any, opts: Any = None, **_: Any) -> _Exchange:
    tensors = _list(tensors)
    op = _reduce_op(opts)

    def make(posts: dict[int, bytes]) -> None:
        for tensor, flat in zip(tensors, _reduced(posts, tensors, op), strict=True):
            fill(tensor, flat)

    return _Exchange(tensors, tensors, None if op == SCALED else make)


def _reduce(self: Any, tensors: Any, opts: Any = None, *rest: Any, **_: Any) -> _Exchange:
    tensors = _list(tensors)
    found = _allreduce(self, tensors, rest[0] if rest else opts)
    if self._root(opts) != self.recorder.rank:
        found.make = None  # gloo leaves partial sums there (measured); nobody promises anything
    return found


def _broadcast(self: Any, tensors: Any, opts: Any = None, *_: Any, **__: Any) -> _Exchange:
    tensors = _list(tensors)
    root = self._root(opts)
    if root == self.recorder.rank:
        return _Exchange(tensors, None, None)
    return _Exchange(None, tensors, lambda posts: _put(tensors, posts[root]), root=root)


def _allgather(self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> _Exchange:
    inputs = _list(inputs)
    lists = outputs if outputs and isinstance(outputs[0], (list, tuple)) else [outputs]

    def make(posts: dict[int, bytes]) -> None:
        for place, member in enumerate(self.members):
            for column, flat in enumerate(unpack(posts[member], inputs)):
                fill(lists[column][place], flat)

    return _Exchange(inputs, [one for row in lists for one in row], make, control=inputs)


def _gather_single(self: Any, output: Any, tensor: Any, opts: Any = None, **_: Any) -> _Exchange:
    return _gather_coalesced(self, [output], [tensor])


def _gather_coalesced(
    self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any
) -> _Exchange:
    def make(posts: dict[int, bytes]) -> None:
        import torch

        rows = [unpack(posts[member], inputs) for member in self.members]
        for output, column in zip(outputs, zip(*rows, strict=True), strict=True):
            whole = torch.cat(column)
            if any(map(is_marked, column)):
                mark([whole])
            fill(output, whole)

    return _Exchange(list(inputs), list(outputs), make, control=list(inputs))


def _scattered(self: Any, outputs: Any, inputs: Any, opts: Any) -> _Exchange:
    """Read a reduce_scatter: ``inputs`` has, per output, one tensor for every member."""
    place, op = self.members.index(self.recorder.rank), _reduce_op(opts)
    sent = [part for parts in inputs for part in parts]
    size = len(self.members)

    def make(posts: dict[int, bytes]) -> None:
        found = _reduced(posts, sent, op)
        for index, output in enumerate(outputs):
            fill(output, found[index * size + place])

    return _Exchange(sent, outputs, None if op == SCALED else make, control=sent)


def _scatter_lists(self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> _Exchange:
    lists = inputs if inputs and isinstance(inputs[0], (list, tuple)) else [inputs]
    return _scattered(self, _list(outputs), lists, opts)


def _scatter_single(self: Any, output: Any, tensor: Any, opts: Any = None, **_: Any) -> _Exchange:
    return _scatter_coalesced(self, [output], [tensor], opts)


def _scatter_coalesced(
    self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any
) -> _Exchange:
    size = len(self.members)
    lists = [list(one.reshape(-1).tensor_split(size)) for one in inputs]
    return _scattered(self, list(outputs), lists, opts)


def _gather(self: Any, outputs: Any, inputs: Any, opts: Any = None, *_: Any, **__: Any) -> Any:
    own = self._root(opts) == self.recorder.rank
    found = _allgather(self, outputs if own else [[]], inputs)
    if not own:
        found.outputs = None
    return found


def _gather_one(self: Any, output: Any, tensor: Any, opts: Any = None, **_: Any) -> _Exchange:
    found = _gather_coalesced(self, [output], [tensor])
    if self._root(opts) != self.recorder.rank:
        found.outputs = None
    return found


def _scatter(self: Any, outputs: Any, inputs: Any, opts: Any = None, *_: Any, **__: Any) -> Any:
    outputs = _list(outputs)
    root, place = self._root(opts), self.members.index(self.recorder.rank)
    sent = [_list(part)[0] for part in _list(inputs[0])] if inputs else None
    like = [outputs[0]] * len(self.members)

    def make(posts: dict[int, bytes]) -> None:
        fill(outputs[0], unpack(posts[root], like)[place])

    own = root == self.recorder.rank
    return _Exchange(sent if own else None, outputs, make, control=like, root=root)


def _alltoall(self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> _Exchange:
    place = self.members.index(self.recorder.rank)

    def make(posts: dict[int, bytes]) -> None:
        for member, output in zip(self.members, outputs, strict=True):
            fill(output, unpack(posts[member], [output] * len(self.members))[place])

    return _Exchange(list(inputs), list(outputs), make)


def _alltoall_single(
    self: Any, output: Any, tensor: Any, out_splits: Any, in_splits: Any, opts: Any = None, **_: Any
) -> _Exchange:
    size = len(self.members)
    parts = [  # an array of numpy has no truth value
        list(
            whole.tensor_split(size) if rows is None or not len(rows)
            else whole.split([int(part) for part in rows])
        )
        for whole, rows in ((output, out_splits), (tensor, in_splits))
    ]  # fmt: skip
    return _alltoall(self, parts[0], parts[1])


_EXCHANGES: dict[str, Callable[..., _Exchange]] = {
    "allreduce": _allreduce,
    "allreduce_coalesced": _allreduce,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "allgather": _allgather,
    "all_gather_single": _gather_single,
    "all_gather_single_coalesced": _gather_coalesced,
    "reduce_scatter": _scatter_lists,
    "reduce_scatter_single": _scatter_single,
    "reduce_scatter_single_coalesced": _scatter_coalesced,
    "gather": _gather,
    "gather_single": _gather_one,
    "scatter": _scatter,
    "alltoall": _alltoall,
    "all_to_all_single": _alltoall_single,
}
