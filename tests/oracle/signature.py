"""Which members of one match disagree, and about what."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING

from oracle.models import Model, same_kind
from oracle.program import POINT_TO_POINT, REDUCING, ROOTED, Action

if TYPE_CHECKING:
    from oracle.lowering import Operation


def _layout(action: Action) -> tuple[Action, ...]:
    """List the tensors of a collective: one, unless it is coalesced."""
    return action.parts if action.coalesced else (action,)


def _sizes(one: Action, other: Action) -> str | None:
    if None not in (one.size.bytes, other.size.bytes):
        if one.size.bytes != other.size.bytes:
            return "bytes"
    elif None not in (one.size.count, other.size.count) and one.size.count != other.size.count:
        return "count"
    if None not in (one.size.dtype, other.size.dtype) and one.size.dtype != other.size.dtype:
        return "dtype"
    return None


def _messages(one: Operation, other: Operation, model: Model) -> str | None:
    send, recv = (one, other) if one.is_send else (other, one)
    sent, room = send.action.size.bytes, recv.action.size.bytes
    what = _sizes(send.action, recv.action)
    if what == "bytes" and model.short_is_fine and (sent or 0) < (room or 0):
        dtypes = {send.action.size.dtype, recv.action.size.dtype} - {None}
        what = "dtype" if len(dtypes) > 1 else None
    return what or _labels(send.action, recv.action)


def _labels(one: Action, other: Action) -> str | None:
    if one.label is not None and other.label is not None:
        return "label" if one.label != other.label else None
    return "label" if _share_a_program(one, other) and one.place != other.place else None


def _share_a_program(one: Action, other: Action) -> bool:
    """Tell whether the places of two reorderable actions say if they are the same action.

    They do for the members of a collective that run one program; the two ends of a message are
    written in two places even there.
    """
    if one.place is None or other.place is None or one.kind in POINT_TO_POINT:
        return False
    return one.place[0] == other.place[0] and not (one.label or other.label)


def is_unjudged(operations: list[Operation]) -> bool:
    """Tell whether nobody can say if the members of a match belong together.

    That is so when one of them may be reordered and neither labels nor places identify them.
    """
    for one, other in combinations((each.action for each in operations), 2):
        labeled = one.label is not None and other.label is not None
        loose = one.place is not None or other.place is not None
        if loose and not labeled and not _share_a_program(one, other):
            return True
    return False


def _reduce_op(action: Action, part: Action) -> str:
    return part.reduce_op or action.reduce_op or "sum"  # torch's default


def _splits(one: Operation, other: Operation, members: tuple[int, ...]) -> str | None:
    """Compare what each sends with what the receiver expects; each also sends to itself."""
    for sender, receiver in product((one, other), repeat=2):
        sent = _share(sender.action.in_splits, sender.action, members, receiver.rank)
        expected = _share(receiver.action.out_splits, receiver.action, members, sender.rank)
        if None not in (sent, expected) and sent != expected:
            return "splits"
    return None


def _share(
    splits: tuple[int, ...] | None, action: Action, members: tuple[int, ...], rank: int
) -> float | None:
    if splits is not None:
        return splits[members.index(rank)]
    return None if action.size.count is None else action.size.count / len(members)


def _collectives(
    one: Operation, other: Operation, members: tuple[int, ...], model: Model
) -> str | None:
    first, second = one.action, other.action
    if not same_kind(model, first.kind, second.kind):
        return "kind"
    if model.blocking_is_a_kind and first.sync != second.sync:
        return "blocking"
    if first.group != second.group:
        return "group"
    if first.kind in ROOTED and first.root != second.root:
        return "root"
    if first.kind == "barrier":
        return _labels(first, second)
    tensors, others = _layout(first), _layout(second)
    if len(tensors) != len(others):
        return "layout"
    split = {first.in_splits, first.out_splits, second.in_splits, second.out_splits} != {None}
    for tensor, counterpart in zip(tensors, others, strict=True):
        if first.kind in REDUCING and _reduce_op(first, tensor) != _reduce_op(second, counterpart):
            return "reduce_op"
        if tensor.size.dtype != counterpart.size.dtype and split:
            return "dtype"
        difference = None if split else _sizes(tensor, counterpart)
        if difference or _labels(tensor, counterpart):
            return difference or "label"
    return (_splits(one, other, members) if split else None) or _labels(first, second)


def disagreement(
    operations: list[Operation], members: tuple[int, ...], model: Model
) -> tuple[Operation, Operation, str] | None:
    """Find two members of one match that disagree, and the first thing they disagree about.

    Sizes, dtypes and labels are compared where both members state them. Tags are no part of the
    signature: where they do not separate channels, the data decides.

    Args:
        operations: the issued members of one round, or of one send-receive pair.
        members: the ordered ranks of the communicator.
        model: says whether a blocking call may meet a nonblocking one.
    """
    for one, other in combinations(operations, 2):
        if one.is_collective:
            what = _collectives(one, other, members, model)
        else:
            what = _messages(one, other, model)
        if what:
            return one, other, what
    return None
