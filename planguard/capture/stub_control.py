"""The stub group whose control plane is real: small whole numbers come from the other ranks.

Everything else is recorded and made up as in ``process_group``. What a call brings arrives when its
handle is waited for, as on a real backend, so a receive may be posted before the send it waits for.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import TYPE_CHECKING, Any

from planguard.capture.made_up import mark, tensors_in
from planguard.capture.mailbox import Gather, Stalled, Take, fill, is_control, unpack
from planguard.capture.process_group import _Collectives, _list, _reduce_op, stub_group_class

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.capture.mailbox import Mailbox

SAME = {
    "_allgather_base": "all_gather_single",
    "allgather_into_tensor_coalesced": "all_gather_single_coalesced",
    "_reduce_scatter_base": "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced",
    "alltoall_base": "all_to_all_single",
}
"""Older names and the newer ones."""
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
        key = self._message(self.recorder.rank, self.members[peer], tag)
        if is_control(tensors):
            self.mailbox.send(key, tensors)
        return work

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        """Record a receive; what belongs to the control plane is there after the wait."""
        work = super().recv(tensors, peer, tag)
        if not is_control(tensors):
            mark(tensors)
        src = self.members[peer]
        key = self._message(src, self.recorder.rank, tag)
        if is_control(tensors):
            self._later(work, lambda: self._taken(tensors, Take(key, src)))
        return work

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Record a receive from anyone; who sends is not known, so neither is what arrives."""
        if is_control(tensors):
            message = f"what rank {self.recorder.rank} receives from any source is not known"
            self.recorder.note("object-value", message, "under")
            self.recorder.note("object-value", message, "over")
        mark(tensors)
        return super().recv_anysource(tensors, tag)

    def barrier(self, opts: Any = None, **options: Any) -> Any:
        """Record a barrier, which is a position on the group like any other collective."""
        self.calls += 1
        return super().barrier(opts, **options)

    def _message(self, src: int, dst: int, tag: int) -> tuple[Any, ...]:
        pair = (src, dst, tag)
        self.messages[pair] = self.messages.get(pair, 0) + 1
        return (self.key, *pair, self.messages[pair])

    def _ask(self, wanted: Gather | Take) -> Any:
        try:
            return self.mailbox.ask(wanted)
        except Stalled:
            self.recorder.is_closed = True
            raise

    def _taken(self, tensors: Any, wanted: Take) -> None:
        for tensor, flat in zip(tensors, unpack(self._ask(wanted), tensors), strict=False):
            fill(tensor, flat)

    def _start_coalescing(self, device: Any) -> None:
        self.launched = []
        super()._start_coalescing(device)

    def _end_coalescing(self, device: Any) -> Any:
        work = super()._end_coalescing(device)
        inner, self.launched = self.launched or [], None
        self._later(work, lambda: [one.arrive() for one in inner])
        return work

    def _later(self, work: Any, arrive: Callable[[], Any]) -> None:
        """Let the handle fetch what arrives, once."""
        todo = [arrive]

        def once() -> None:
            if todo:
                todo.pop()()

        work.arrive = once
        if self.launched is not None:
            self.launched.append(work)


class _Exchange:
    """One collective of the control plane: what is sent, who must have sent, what it makes.

    Attributes:
        sent: What this rank contributes, None for nothing.
        root: The one member whose contribution counts; None for all.
        takes: This rank gets something.
        make: From contributions by rank to nothing; fills the outputs.
    """

    def __init__(
        self,
        sent: Sequence[Any] | None,
        make: Callable[[dict[int, bytes]], None],
        *,
        root: int | None = None,
        takes: bool = True,
    ) -> None:
        self.sent = sent
        self.make = make
        self.root = root
        self.takes = takes


def _exchanging(name: str) -> Any:
    """Return a method that records a collective and makes it real where it is control."""
    record = getattr(_Collectives, name)
    read = _EXCHANGES[name]

    def call(self: Any, *args: Any, **options: Any) -> Any:
        self.calls += 1
        key = (self.key, self.calls, name)
        exchange: _Exchange | None = read(self, *args, **options)
        if exchange is not None and exchange.sent is not None:
            self.mailbox.post(key, exchange.sent)
        work = record(self, *args, **options)
        if exchange is None:
            mark(tensors_in(args[0]))  # every method gives its results in its first argument
        if exchange is not None and exchange.takes:
            needs = tuple(self.members) if exchange.root is None else (exchange.root,)
            wanted = Gather(key, tuple(self.members), needs)
            self._later(work, lambda: exchange.make(self._ask(wanted)))
        return work

    call.__name__ = name
    return call


def _reduced(posts: dict[int, bytes], like: Sequence[Any], op: str) -> list[Any]:
    """Reduce the contributions of all members, tensor by tensor."""
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
    combine = two.get(op, torch.add)
    found = [reduce(combine, column) for column in zip(*parts, strict=True)]
    return [one // size for one in found] if op == "avg" else found


def _allreduce(self: Any, tensors: Any, opts: Any = None, **_: Any) -> _Exchange | None:
    tensors = _list(tensors)
    if not is_control(tensors):
        return None
    op = _reduce_op(opts)

    def make(posts: dict[int, bytes]) -> None:
        for tensor, flat in zip(tensors, _reduced(posts, tensors, op), strict=True):
            fill(tensor, flat)

    return _Exchange(tensors, make)


def _reduce(self: Any, tensors: Any, opts: Any = None, *rest: Any, **_: Any) -> _Exchange | None:
    tensors = _list(tensors)
    found = _allreduce(self, tensors, rest[0] if rest else opts)
    if found is not None:
        found.takes = self._root(opts) == self.recorder.rank
    return found


def _broadcast(self: Any, tensors: Any, opts: Any = None, *_: Any, **__: Any) -> _Exchange | None:
    tensors = _list(tensors)
    if not is_control(tensors):
        return None
    root = self._root(opts)
    own = root == self.recorder.rank

    def make(posts: dict[int, bytes]) -> None:
        for tensor, flat in zip(tensors, unpack(posts[root], tensors), strict=False):
            fill(tensor, flat)

    return _Exchange(tensors if own else None, make, root=root, takes=not own)


def _allgather(self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Any:
    inputs = _list(inputs)
    lists = outputs if outputs and isinstance(outputs[0], (list, tuple)) else [outputs]
    if not is_control(inputs):
        return None

    def make(posts: dict[int, bytes]) -> None:
        for place, member in enumerate(self.members):
            for column, flat in enumerate(unpack(posts[member], inputs)):
                fill(lists[column][place], flat)

    return _Exchange(inputs, make)


def _gather_single(self: Any, output: Any, tensor: Any, opts: Any = None, **_: Any) -> Any:
    return _gather_coalesced(self, [output], [tensor])


def _gather_coalesced(self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Any:
    if not is_control(inputs):
        return None

    def make(posts: dict[int, bytes]) -> None:
        import torch

        rows = [unpack(posts[member], inputs) for member in self.members]
        for output, column in zip(outputs, zip(*rows, strict=True), strict=True):
            fill(output, torch.cat(column))

    return _Exchange(inputs, make)


def _scattered(self: Any, outputs: Any, inputs: Any, opts: Any) -> Any:
    """Read a reduce_scatter: ``inputs`` has, per output, one tensor for every member."""
    if not is_control(outputs):
        return None
    place, op = self.members.index(self.recorder.rank), _reduce_op(opts)
    sent = [part for parts in inputs for part in parts]
    size = len(self.members)

    def make(posts: dict[int, bytes]) -> None:
        found = _reduced(posts, sent, op)
        for index, output in enumerate(outputs):
            fill(output, found[index * size + place])

    return _Exchange(sent, make)


def _scatter_lists(self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Any:
    lists = inputs if inputs and isinstance(inputs[0], (list, tuple)) else [inputs]
    return _scattered(self, _list(outputs), lists, opts)


def _scatter_single(self: Any, output: Any, tensor: Any, opts: Any = None, **_: Any) -> Any:
    return _scatter_coalesced(self, [output], [tensor], opts)


def _scatter_coalesced(self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Any:
    size = len(self.members)
    lists = [list(one.reshape(-1).tensor_split(size)) for one in inputs]
    return _scattered(self, outputs, lists, opts)


def _gather(self: Any, outputs: Any, inputs: Any, opts: Any = None, *_: Any, **__: Any) -> Any:
    own = self._root(opts) == self.recorder.rank
    found = _allgather(self, outputs if own else [[]], inputs)
    if found is not None:
        found.takes = own
    return found


def _scatter(self: Any, outputs: Any, inputs: Any, opts: Any = None, *_: Any, **__: Any) -> Any:
    outputs = _list(outputs)
    if not is_control(outputs):
        return None
    root, place = self._root(opts), self.members.index(self.recorder.rank)
    sent = [_list(part)[0] for part in _list(inputs[0])] if inputs else None
    like = [outputs[0]] * len(self.members)

    def make(posts: dict[int, bytes]) -> None:
        fill(outputs[0], unpack(posts[root], like)[place])

    return _Exchange(sent if root == self.recorder.rank else None, make, root=root)


def _alltoall(self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Any:
    if not is_control([*outputs, *inputs]):
        return None
    place = self.members.index(self.recorder.rank)

    def make(posts: dict[int, bytes]) -> None:
        for member, output in zip(self.members, outputs, strict=True):
            like = [output] * len(self.members)
            fill(output, unpack(posts[member], like)[place])

    return _Exchange(list(inputs), make)


def _alltoall_single(
    self: Any, output: Any, tensor: Any, out_splits: Any, in_splits: Any, opts: Any = None, **_: Any
) -> Any:
    if not is_control([output, tensor]):
        return None
    size = len(self.members)
    parts = [  # an array of numpy has no truth value
        list(
            whole.tensor_split(size) if rows is None or not len(rows)
            else whole.split([int(part) for part in rows])
        )
        for whole, rows in ((output, out_splits), (tensor, in_splits))
    ]  # fmt: skip
    return _alltoall(self, parts[0], parts[1])


_EXCHANGES: dict[str, Callable[..., _Exchange | None]] = {
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
    "scatter": _scatter,
    "alltoall": _alltoall,
    "all_to_all_single": _alltoall_single,
}
