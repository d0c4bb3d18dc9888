"""What each collective sends and makes of what it gets: one reading of torch's arguments each."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from planguard.capture.groups.process_group import _list, _reduce_op
from planguard.capture.play.mailbox import fill, is_of_size, unpack
from planguard.capture.values.made_up import is_marked, mark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SCALED = "premul_sum"
"""The reduction whose factor is not read: its result is made up."""
# ruff: noqa: ARG001 - every reading has the signature of torch's method


class OtherSizeError(Exception):
    """What arrives has another size than the call expects: the plan shows the mismatch there."""


def put(tensors: Sequence[Any], data: bytes) -> None:
    """Fill tensors with what one rank sent.

    Raises:
        OtherSizeError: It is another call's. DDP takes indices of its buckets from here, unchecked,
            and ``broadcast_object_list`` the sizes of its objects: with these the process would end
            or ask for terabytes, and the plan that shows the mismatch were lost.
    """
    if not is_of_size(data, tensors):
        raise OtherSizeError
    for tensor, flat in zip(tensors, unpack(data, tensors), strict=False):
        fill(tensor, flat)


class Exchange:
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


def _allreduce(self: Any, tensors: Any, opts: Any = None, **_: Any) -> Exchange:
    tensors = _list(tensors)
    op = _reduce_op(opts)

    def make(posts: dict[int, bytes]) -> None:
        for tensor, flat in zip(tensors, _reduced(posts, tensors, op), strict=True):
            fill(tensor, flat)

    return Exchange(tensors, tensors, None if op == SCALED else make)


def _reduce(self: Any, tensors: Any, opts: Any = None, *rest: Any, **_: Any) -> Exchange:
    tensors = _list(tensors)
    found = _allreduce(self, tensors, rest[0] if rest else opts)
    if self._root(opts) != self.recorder.rank:
        found.make = None  # gloo leaves partial sums there (measured); nobody promises anything
    return found


def _broadcast(self: Any, tensors: Any, opts: Any = None, *_: Any, **__: Any) -> Exchange:
    tensors = _list(tensors)
    root = self._root(opts)
    if root == self.recorder.rank:
        return Exchange(tensors, None, None)

    def make(posts: dict[int, bytes]) -> None:
        put(tensors, posts[root])

    return Exchange(None, tensors, make, root=root)


def _allgather(self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Exchange:
    inputs = _list(inputs)
    lists = outputs if outputs and isinstance(outputs[0], (list, tuple)) else [outputs]

    def make(posts: dict[int, bytes]) -> None:
        for place, member in enumerate(self.members):
            for column, flat in enumerate(unpack(posts[member], inputs)):
                fill(lists[column][place], flat)

    return Exchange(inputs, [one for row in lists for one in row], make, control=inputs)


def _gather_single(self: Any, output: Any, tensor: Any, opts: Any = None, **_: Any) -> Exchange:
    return _gather_coalesced(self, [output], [tensor])


def _gather_coalesced(self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Exchange:
    def make(posts: dict[int, bytes]) -> None:
        import torch

        rows = [unpack(posts[member], inputs) for member in self.members]
        for output, column in zip(outputs, zip(*rows, strict=True), strict=True):
            whole = torch.cat(column)
            if any(map(is_marked, column)):
                mark([whole])
            fill(output, whole)

    return Exchange(list(inputs), list(outputs), make, control=list(inputs))


def _scattered(self: Any, outputs: Any, inputs: Any, opts: Any) -> Exchange:
    """Read a reduce_scatter: ``inputs`` has, per output, one tensor for every member."""
    place, op = self.members.index(self.recorder.rank), _reduce_op(opts)
    sent = [part for parts in inputs for part in parts]
    size = len(self.members)

    def make(posts: dict[int, bytes]) -> None:
        found = _reduced(posts, sent, op)
        for index, output in enumerate(outputs):
            fill(output, found[index * size + place])

    return Exchange(sent, outputs, None if op == SCALED else make, control=sent)


def _scatter_lists(self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Exchange:
    lists = inputs if inputs and isinstance(inputs[0], (list, tuple)) else [inputs]
    return _scattered(self, _list(outputs), lists, opts)


def _scatter_single(self: Any, output: Any, tensor: Any, opts: Any = None, **_: Any) -> Exchange:
    return _scatter_coalesced(self, [output], [tensor], opts)


def _scatter_coalesced(
    self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any
) -> Exchange:
    size = len(self.members)
    lists = [list(one.reshape(-1).tensor_split(size)) for one in inputs]
    return _scattered(self, list(outputs), lists, opts)


def _gather(self: Any, outputs: Any, inputs: Any, opts: Any = None, *_: Any, **__: Any) -> Any:
    own = self._root(opts) == self.recorder.rank
    found = _allgather(self, outputs if own else [[]], inputs)
    if not own:
        found.outputs = None
    return found


def _gather_one(self: Any, output: Any, tensor: Any, opts: Any = None, **_: Any) -> Exchange:
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
    return Exchange(sent if own else None, outputs, make, control=like, root=root)


def _alltoall(self: Any, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Exchange:
    place = self.members.index(self.recorder.rank)

    def make(posts: dict[int, bytes]) -> None:
        for member, output in zip(self.members, outputs, strict=True):
            fill(output, unpack(posts[member], [output] * len(self.members))[place])

    return Exchange(list(inputs), list(outputs), make)


def _alltoall_single(
    self: Any, output: Any, tensor: Any, out_splits: Any, in_splits: Any, opts: Any = None, **_: Any
) -> Exchange:
    size = len(self.members)
    parts = [  # an array of numpy has no truth value
        list(
            whole.tensor_split(size) if rows is None or not len(rows)
            else whole.split([int(part) for part in rows])
        )
        for whole, rows in ((output, out_splits), (tensor, in_splits))
    ]  # fmt: skip
    return _alltoall(self, parts[0], parts[1])


EXCHANGES: dict[str, Callable[..., Exchange]] = {
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
