"""A recording ``planguard.megatron/1`` as records; every defect is a PlanError with its path."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from ..common.module import ITEM_BYTES
from ..common.reading import At, load_json, records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = "planguard.megatron/1"
OPS = ("isend", "irecv", "batch", "wait", "sync", "compute", "all_reduce")
MAX_RANKS = 1 << 16
_MOST = 1 << 56
"""Elements of a tensor."""
_HEAD = (
    "schema", "megatron", "pipeline", "virtual", "microbatches", "data", "forward_only",
    "gradients", "flags", "groups", "ranks",
)  # fmt: skip

Source = tuple[str, int, str]


class Message(Struct, frozen=True):
    """One send, receive or collective.

    Attributes:
        op: ``isend``, ``irecv`` or a collective.
        peer: Global rank, -1 for a collective.
        group: Name of the process group.
        dtype: torch's name.
        count: Number of elements, -1 where that is not known.
        label: Identity of the tensor, empty if nothing used it.
    """

    op: str
    peer: int
    group: str
    dtype: str
    count: int
    label: str


class Event(Struct, frozen=True):
    """One call of a rank.

    Attributes:
        op: One of ``OPS``, or ``collective``.
        src: Line of the schedule.
        messages: One of a send, receive or collective, those of a batch.
        work: Number of the handle, -1 for none.
        name: Name of a computation.
    """

    op: str
    src: Source
    messages: tuple[Message, ...] = ()
    work: int = -1
    name: str = ""


Name = Annotated[str, Meta(max_length=200)]
Text = Annotated[str, Meta(max_length=1_000)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Size = Annotated[int, Meta(ge=0, le=1 << 40)]


class Part(Struct, forbid_unknown_fields=True, gc=False):
    """A message as it stands in a recording."""

    op: Literal["isend", "irecv"]
    peer: int = -1
    group: Name = "world"
    shape: list[Size] | None = None
    dtype: str = ""
    label: Name = ""
    work: Any = None
    at: Any = None


class Row(Struct, forbid_unknown_fields=True, gc=False):
    """A call as it stands in a recording, for those in which nothing is wrong."""

    op: Literal["isend", "irecv", "batch", "wait", "sync", "compute", "all_reduce"]
    peer: int = -1
    group: Name = "world"
    shape: list[Size] | None = None
    dtype: str = ""
    label: Name = ""
    work: Number = -1
    name: Name | None = None
    ops: list[Part] | None = None
    at: tuple[Text, Number, Text] = ("schedules.py", 0, "")


@dataclass(frozen=True)
class Recording:
    """What all ranks called.

    Attributes:
        file: Where it was read.
        version: Megatron-core's version.
        groups: Global ranks of every pipeline group.
        ranks: Events of every rank.
    """

    file: str
    version: str
    groups: dict[str, tuple[int, ...]]
    ranks: tuple[tuple[Event, ...], ...]


def read_recording(obj: Path | dict[str, Any]) -> Recording:
    """Read a recording from a file, or one that is parsed already.

    Raises:
        PlanError: It is malformed; the message has the JSON path, the value and a hint.
    """
    top = At(obj) if isinstance(obj, dict) else load_json(obj)
    found = top.fields(*_HEAD)
    for name in ("schema", "groups", "ranks"):
        if name not in found:
            top.fail(f"{name!r} is missing", hint="docs/planners/megatron.md lists the fields")
    if found["schema"].text() != SCHEMA:
        found["schema"].fail(f"expected {SCHEMA!r}")
    programs = list(found["ranks"].each())
    if not 1 <= len(programs) <= MAX_RANKS:
        found["ranks"].fail(f"expected 1 to {MAX_RANKS} ranks")
    groups = {name: _members(listed, len(programs)) for name, listed in found["groups"].items()}
    if "world" in groups:
        found["groups"].fail("'world' is the group of all ranks already")
    return Recording(
        file=top.file or "megatron.json",
        version=found["megatron"].text(100) if "megatron" in found else "unknown",
        groups=groups,
        ranks=tuple(_program(listed, groups, len(programs)) for listed in programs),
    )


def _members(at: At, world: int) -> tuple[int, ...]:
    ranks = tuple(at.integers(0, world - 1))
    if len(set(ranks)) != len(ranks) or not ranks:
        at.fail("a group lists its ranks once each")
    return ranks


def _program(at: At, groups: dict[str, tuple[int, ...]], world: int) -> tuple[Event, ...]:
    rows = records(at, Row)
    try:
        if rows is not None:
            return tuple(_events(rows, groups, world))
    except _WrongError:
        pass  # the reader of one call says what
    begun: set[int] = set()
    return tuple(_event(item, groups, world, begun) for item in at.each())


class _WrongError(Exception):
    """Something is wrong with a call."""


def _events(rows: list[Row], groups: dict[str, tuple[int, ...]], world: int) -> Iterator[Event]:
    """Yield the events of rows, as ``_event`` reads them one by one.

    Raises:
        _WrongError: It would refuse one.
    """
    begun: set[int] = set()
    for row in rows:
        op, work = row.op, row.work
        if op == "sync":
            yield Event(op, row.at)
        elif op == "compute":
            if row.name is None:
                raise _WrongError
            yield Event(op, row.at, name=row.name)
        elif op == "wait":
            if work not in begun:
                raise _WrongError
            begun.remove(work)
            yield Event(op, row.at, work=work)
        elif op == "all_reduce":
            yield Event(op, row.at, (_sent(row, groups, world),))
        else:
            parts = row.ops if op == "batch" else (row,)
            if work in begun or not parts:
                raise _WrongError
            if work >= 0:
                begun.add(work)
            yield Event(op, row.at, tuple([_sent(one, groups, world) for one in parts]), work)


def _sent(part: Part | Row, groups: dict[str, tuple[int, ...]], world: int) -> Message:
    """Return a message or collective, as ``_message`` reads it."""
    if part.shape is None or part.dtype not in ITEM_BYTES:
        raise _WrongError
    if isinstance(part, Row) and (part.name is not None or part.ops is not None):
        raise _WrongError  # fields of other calls
    count, peer = math.prod(part.shape), part.peer
    if part.op == "all_reduce":
        peer = -1
    elif not 0 <= peer < world:
        raise _WrongError
    if count > _MOST or (part.group != "world" and part.group not in groups):
        raise _WrongError
    return Message(part.op, peer, part.group, part.dtype, count, part.label)


def _event(at: At, groups: dict[str, tuple[int, ...]], world: int, begun: set[int]) -> Event:
    fields = at.fields(
        "op", "peer", "group", "shape", "dtype", "label", "work", "name", "ops", "at"
    )
    op = _required(at, fields, "op").text(20)
    if op not in OPS:
        fields["op"].fail("unknown operation", hint=f"one of {', '.join(OPS)}")
    src = _source(fields["at"]) if "at" in fields else ("schedules.py", 0, "")
    work = fields["work"].integer() if "work" in fields else -1
    if op == "compute":
        return Event(op, src, name=_required(at, fields, "name").text(200))
    if op == "wait":
        if work not in begun:
            at.fail("a wait for a handle that does not exist, or was waited for before")
        begun.remove(work)
        return Event(op, src, work=work)
    if op == "sync":
        return Event(op, src)
    if op == "all_reduce":
        return Event(op, src, (_message(at, groups, world),))
    if work in begun:
        fields["work"].fail("a handle is begun twice")
    if work >= 0:
        begun.add(work)
    if op == "batch":
        parts = _required(at, fields, "ops")
        messages = tuple(_message(part, groups, world) for part in parts.each())
        if not messages:
            parts.fail("a batch of nothing")
        return Event(op, src, messages, work)
    return Event(op, src, (_message(at, groups, world),), work)


def _required(at: At, fields: dict[str, At], name: str) -> At:
    if name not in fields:
        at.fail(f"{name!r} is missing")
    return fields[name]


def _source(at: At) -> Source:
    parts = list(at.each())
    if len(parts) != 3:
        at.fail("a place is [file, line, function]")
    return parts[0].text(1_000), parts[1].integer(), parts[2].text(1_000)


def _message(at: At, groups: dict[str, tuple[int, ...]], world: int) -> Message:
    fields = at.fields("op", "peer", "group", "shape", "dtype", "label", "work", "at")
    op = _required(at, fields, "op").text(20)
    if op not in {"isend", "irecv"} and not (op == "all_reduce" and at.path.count("[") == 2):
        fields["op"].fail("expected isend or irecv")
    group = fields["group"].text(200) if "group" in fields else "world"
    if group != "world" and group not in groups:
        fields["group"].fail("no such group", hint=f"known: world, {', '.join(groups)}")
    dtype = _required(at, fields, "dtype").text(40)
    if dtype not in ITEM_BYTES:
        fields["dtype"].fail("unknown type", hint=f"one of {', '.join(ITEM_BYTES)}")
    shape = _required(at, fields, "shape").integers(0, 1 << 40)
    if math.prod(shape) > _MOST:
        fields["shape"].fail("a tensor of that size does not exist")
    peer = -1 if op == "all_reduce" else _required(at, fields, "peer").integer(0, world - 1)
    label = fields["label"].text(200) if "label" in fields else ""
    return Message(op, peer, group, dtype, math.prod(shape), label)
