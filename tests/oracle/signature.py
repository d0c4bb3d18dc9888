"""Which members of one match disagree, and about what."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from oracle.models import Model, same_kind
from oracle.program import POINT_TO_POINT, REDUCING, REGISTERED, ROOTED, Action

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

    That is so when one of them may be reordered and neither labels nor places identify them, and
    where ranks call one communicator by the names of two groups that have equal members.
    """
    for one, other in combinations((each.action for each in operations), 2):
        if one.group != other.group:
            return True  # one communicator, named crosswise
        labeled = _is_labeled(one) and _is_labeled(other)
        loose = one.moves or other.moves
        if loose and not labeled and not _share_a_program(one, other):
            return True
    return False


def _is_labeled(action: Action) -> bool:
    """Tell whether an action says what its data is, itself or part by part."""
    parts = action.parts if action.coalesced else ()
    return action.label is not None or (bool(parts) and all(part.label for part in parts))


def _reduce_op(action: Action, part: Action) -> str:
    return part.reduce_op or action.reduce_op or "sum"  # torch's default


Claims = dict[tuple[int, int], Fraction]
"""Elements that go from one rank to another, as one of the two says it."""

WIDTH = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2}
WIDTH |= dict.fromkeys(("f8", "i8", "u8", "bool"), 1)
EVERYBODY = -1
"""In a gather every receiver gets the same from a member, in a scatter the same from every one."""


def _claims(operation: Operation, members: tuple[int, ...], width: int) -> Claims:
    """List what a member says of the parts that it gives and gets.

    Its own tensor has the size of the call; the other side are its splits, or equal shares.
    """
    action, rank, kind = operation.action, operation.rank, operation.action.kind
    own = action.size.count
    whole = None if own is None else Fraction(own)
    if whole is None and action.size.bytes is not None and width:
        whole = Fraction(action.size.bytes, width)
    share = whole
    if kind.startswith("all_to_all") and whole is not None:
        share = whole / len(members)
    ins = action.in_splits or [share] * len(members)
    outs = action.out_splits or [share] * len(members)
    takes_part = kind not in ROOTED or rank == action.root
    gives: dict[tuple[int, int], object] = {}
    gets: dict[tuple[int, int], object] = {}
    for place, other in enumerate(members):
        if "gather" in kind:
            gives[rank, EVERYBODY] = whole
            gets |= {(other, EVERYBODY): outs[place]} if takes_part else {}
        elif "scatter" in kind:
            gives |= {(EVERYBODY, other): ins[place]} if takes_part else {}
            gets[EVERYBODY, rank] = whole
        else:
            gives[rank, other], gets[other, rank] = ins[place], outs[place]
    said: Claims = {}
    for key, value in (*gives.items(), *gets.items()):
        if value is None:
            continue
        if said.setdefault(key, Fraction(value)) != value:
            raise _SelfContradictionError
    return said


class _SelfContradictionError(Exception):
    """A member gives itself another amount than it gets from itself."""


def _splits(one: Operation, other: Operation, members: tuple[int, ...], width: int) -> str | None:
    """Compare what each sends with what the receiver expects; each also sends to itself."""
    try:
        first, second = _claims(one, members, width), _claims(other, members, width)
    except _SelfContradictionError:
        return "splits"
    return "splits" if any(first[key] != second[key] for key in first.keys() & second) else None


def _registered(one: Action, other: Action) -> str | None:
    """Compare what the members of an added operation must state alike."""
    agree = REGISTERED[one.kind].agree
    if "root" in agree and one.root != other.root:
        return "root"
    dtypes = {one.size.dtype, other.size.dtype} - {None}
    if "dtype" in agree and len(dtypes) > 1:
        return "dtype"
    what = _sizes(one, other)
    return _labels(one, other) if what is None or "bytes" not in agree else what


def _collectives(
    one: Operation, other: Operation, members: tuple[int, ...], model: Model, width: int | None
) -> str | None:
    """Compare two members of a round.

    Args:
        one: a member.
        other: another.
        members: the ordered ranks of the communicator.
        model: says which spellings are one call.
        width: bytes of an element where some member has splits (0: unknown); else None.
    """
    first, second = one.action, other.action
    if not same_kind(model, first.kind, second.kind):
        return "kind"
    if model.lists_are_a_kind and first.coalesced != second.coalesced:
        return "kind"
    if model.blocking_is_a_kind and first.sync != second.sync:
        return "blocking"
    if first.kind in ROOTED and first.root != second.root:
        return "root"
    if first.kind == "barrier":
        return _labels(first, second)
    tensors, others = _layout(first), _layout(second)
    if len(tensors) != len(others):
        return "layout"
    split = width is not None
    for tensor, counterpart in zip(tensors, others, strict=True):
        if first.kind in REDUCING and _reduce_op(first, tensor) != _reduce_op(second, counterpart):
            return "reduce_op"
        if split and len({tensor.size.dtype, counterpart.size.dtype} - {None}) > 1:
            return "dtype"
        difference = None if split else _sizes(tensor, counterpart)
        if difference or _labels(tensor, counterpart):
            return difference or "label"
    return (_splits(one, other, members, width or 0) if split else None) or _labels(first, second)


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
    width = _width(operations)
    for one, other in combinations(operations, 2):
        if one.action.kind in REGISTERED and one.action.kind == other.action.kind:
            what = _registered(one.action, other.action)
        elif one.is_collective:
            what = _collectives(one, other, members, model, width)
        else:
            what = _messages(one, other, model)
        if what:
            return one, other, what
    return None


def _width(operations: list[Operation]) -> int | None:
    """Return the bytes of an element, 0 if nobody says; None where nobody has uneven parts."""
    actions = [each.action for each in operations]
    if all(action.in_splits is None and action.out_splits is None for action in actions):
        return None
    return max((WIDTH[one.size.dtype] for one in actions if one.size.dtype), default=0)
