"""What the members of a match must agree on: standard library only, nothing of the engine.

The half of the checker that compares: kind, root, sizes, element types, reduce operation, parts of
coalesced and of uneven collectives, labels. What only one member says is compared with nobody.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GATHERS = {"all_gather", "all_gather_into_tensor", "gather"}
SCATTERS = {"reduce_scatter", "reduce_scatter_tensor", "scatter"}
EXCHANGES = {"all_to_all", "all_to_all_single"}
MPI = {"mpi-eager", "mpi-sync"}  # a shorter message is fine; blocking never meets nonblocking
PAIR = {"send", "isend", "recv", "irecv"}
SPELLING = {"all_gather_into_tensor": "all_gather", "all_to_all_single": "all_to_all"}
SPLITS = {"in_splits", "out_splits"}
ITEM_BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2}
ITEM_BYTES |= dict.fromkeys(("f8", "i8", "u8", "bool"), 1)
Call = dict[str, Any]


class RejectedError(Exception):
    """The certificate does not show that the plan is safe; the message says where."""


class OutsideError(RejectedError):
    """The plan holds something of which no single order of completion proves anything."""


class Member(Protocol):
    """One call of a match: the call itself, and the place of its rank in the group."""

    @property
    def call(self) -> Call:
        """The action."""

    @property
    def place(self) -> int:
        """Place of the rank in the group; of a message, 0 sends and 1 receives."""

    @property
    def messages(self) -> int:
        """Messages that the rank made before on the communicator."""

    @property
    def is_root(self) -> bool:
        """Whether the rank is the root, or there is none."""


def extent(call: Call) -> tuple[int | None, str | None]:
    """Return bytes and element type as far as the plan says."""
    if "count" in call:
        return call["count"] * ITEM_BYTES[call["dtype"]], call["dtype"]
    return call.get("bytes"), call.get("dtype")


def calls_of(item: Any) -> Iterator[Call]:
    """Yield every action in a list of actions, blocks and parts of batches included."""
    if isinstance(item, list):
        for one in item:
            yield from calls_of(one)
        return
    yield item
    inner = ("ops",) if item["op"] == "batch" else ("body", "threads", "branches")
    for key in inner:
        yield from calls_of(item.get(key, []))


def agree(ops: Sequence[Member], size: int, model: str) -> None:
    """Reject a match whose members disagree.

    Args:
        ops: Its members, those of a message the sender first.
        size: Members of the group.
        model: Name of the execution model.

    Raises:
        RejectedError: Two members disagree.
    """
    seen: dict[str, tuple[Any, Member]] = {}
    uneven = any(SPLITS & {*op.call} for op in ops)
    for op in ops:
        for what, value in _signature(op.call, model, uneven=uneven):
            other, first = seen.setdefault(what, (value, op)) if value is not None else (None, op)
            is_short = what == "bytes" and model in MPI and op.call["op"] in PAIR
            if value != other and not (is_short and other < value):
                raise RejectedError(f"{what} disagree: {other} of {first}, {value} of {op}")
    before = {op.messages: op for op in ops if op.call["op"] not in PAIR}
    if model == "gloo-detail" and len(before) > 1:  # its fingerprints hold a sequence number
        (one, first), (two, other) = sorted(before.items())[:2]
        raise RejectedError(f"messages made before disagree: {one} of {first}, {two} of {other}")
    widths = [ITEM_BYTES[op.call["dtype"]] for op in ops if "dtype" in op.call]
    shares: dict[tuple[int, int], tuple[Fraction | int, Member]] = {}
    for op in ops if uneven else ():
        for way, number in _shares(op, size, max(widths, default=0)):
            if number is None:
                continue
            other, first = shares.setdefault(way, (number, op))
            if number != other:
                raise RejectedError(f"splits disagree: {other} of {first}, {number} of {op}")


def _signature(call: Call, model: str, *, uneven: bool) -> Iterator[tuple[str, Any]]:
    """Yield what the members of a match must agree on; None where the plan does not say."""
    parts: list[Call] = call.get("ops", [])
    name: str = call["kind"] if parts else call["op"]
    size, dtype = extent({} if name == "barrier" else call)
    yield "dtype", dtype
    yield "bytes", None if uneven else size
    if name not in PAIR:
        is_alike = model[:4] == "nccl" and name == "reduce_scatter_tensor"
        kind = "reduce_scatter" if is_alike else SPELLING.get(name, name)
        told = parts and model == "gloo-detail"  # elsewhere a list of one is the call itself
        yield "kind", (kind, bool(told), model in MPI and call.get("async", False))
        yield "root", call.get("root", "none")
        yield "reduce_op", call.get("reduce_op", "sum")
        yield "number of parts", len(parts) or 1
    yield "label", call.get("label")
    is_whole = uneven or name in PAIR or name == "barrier"
    for place, part in enumerate(parts or ([] if is_whole else [call])):
        size, dtype = extent(part)
        yield f"bytes of part {place}", size
        yield f"dtype of part {place}", dtype
        yield f"label of part {place}", part.get("label")


def _shares(
    op: Member, size: int, width: int
) -> Iterator[tuple[tuple[int, int], Fraction | int | None]]:
    """Yield what a member says of the elements that go from one place to another (-1: any).

    Its own tensor has the size of the call. The other side are its splits, of which only a root
    knows where there is one, or equal shares.
    """
    call, name, own = op.call, op.call["op"], op.place
    count = call.get("count")
    if count is None and width and "bytes" in call:
        count = Fraction(call["bytes"], width)
    even = Fraction(count, size) if count is not None and name in EXCHANGES else count
    ins, outs = (call.get(field, [even] * size) for field in ("in_splits", "out_splits"))
    if name in GATHERS:
        yield (own, -1), count
        yield from (((place, -1), outs[place]) for place in range(size) if op.is_root)
    elif name in SCATTERS:
        yield (-1, own), count
        yield from (((-1, place), ins[place]) for place in range(size) if op.is_root)
    else:
        yield from (((own, place), ins[place]) for place in range(size))
        yield from (((place, own), outs[place]) for place in range(size))
