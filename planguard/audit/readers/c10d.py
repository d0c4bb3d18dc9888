"""Calls of torch's dispatcher, which Kineto and ExecutionTrace both record: ``c10d::send``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from planguard.audit.readers.names import element_type, operation
from planguard.audit.readers.part import UNSAID, Part, PartGroup
from planguard.plan.vocabulary import HANDLES, LAUNCHES, LIFETIME, MESSAGES, ROOTED, SPELLINGS
from planguard.recording import Call, Progress

MAX_MEMBERS = 1_000_000
ROOT = {name: 2 if name == "broadcast" else 3 for name in ROOTED}
"""Place of the root among the arguments of a rooted collective."""

_ROWS = re.compile(r"\[\d{1,15}(?:, ?\d{1,15}){0,4095}\]")


@dataclass(frozen=True)
class Dispatch:
    """One recorded dispatcher call.

    Attributes:
        name: Name behind ``c10d::``.
        values: Arguments; what is no number, list or bool is of no use.
        shapes: Shape or list of shapes of every argument.
        types: Type names of the arguments.
        time_ns: When it began, or None.
        number: The recorder's own number.
    """

    name: str
    values: list[Any]
    shapes: list[Any]
    types: list[Any]
    time_ns: int | None = None
    number: int | None = None


@dataclass
class Dispatches:
    """Turns dispatcher calls of one rank into a track.

    Without ``record_param_comms``, which only NCCL writes, a call does not say its group: it is the
    default group when the rank belongs to no other one, else unknown.
    """

    part: Part
    calls: dict[Call, int] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The group of a call that does not say it."""
        if set(self.part.groups) - {"world"}:
            self.part.groups.setdefault(UNSAID, PartGroup())
            return UNSAID
        return "world"

    def add(self, one: Dispatch) -> None:
        """Append a dispatcher call."""
        op = operation(one.name)
        group = self.group
        root = peer = None
        tag = 0
        if one.name.startswith("recv_any"):
            tag = _number(one.values, 2) or 0  # it names no peer
        elif op in MESSAGES:
            peer = self.member(group, _number(one.values, 2))
            tag = _number(one.values, 3) or 0
        elif op in ROOT:
            root = self.member(group, _number(one.values, ROOT[op]))
        is_async = one.values[-2] in (True, "True") if len(one.values) > 2 else None
        count, dtype = _size(op, one)
        if op == "barrier":
            count = dtype = None
        call = Call(
            op,
            group,
            peer=peer,
            tag=max(tag, 0),
            root=root,
            count=count,
            dtype=dtype,
            shape=_shape(op, (count, None)),
        )
        # Sends and receives carry no such argument: the host waits for the handle, or does not.
        self.append(call, one, is_async=None if op in MESSAGES else is_async)

    def add_described(
        self,
        one: Dispatch,
        group: str,
        counts: tuple[Any, Any],
        peers: tuple[Any, Any],
        dtype: str,
        splits: tuple[Any, Any] = (None, None),
    ) -> None:
        """Append a call that NCCL describes in full.

        Args:
            one: Its name, and when it began.
            group: Name of its group as recorded.
            counts: Elements that go in and that come out.
            peers: Destination of a send and source of a receive.
            dtype: Element type as recorded.
            splits: Rows that go to each member and come from each, as text.
        """
        if not one.name or one.name in HANDLES | LIFETIME | LAUNCHES:
            return
        op = operation(one.name)
        group = "world" if group in ("0", "default_pg") else group
        count = counts[op == "recv" or "scatter" in op]
        peer = peers[op == "recv"] if op in MESSAGES else None
        call = Call(
            op,
            group,
            peer=self.member(group, peer if type(peer) is int else None),
            count=count if type(count) is int and count >= 0 and op != "barrier" else None,
            dtype=element_type(dtype),
            shape=_shape(op, counts),
            in_splits=_parts(op, splits[0], counts[0]),
            out_splits=_parts(op, splits[1], counts[1]),
        )
        self.append(call, one)

    def append(self, call: Call, one: Dispatch, *, is_async: bool | None = None) -> None:
        """Append a call under the number and time of a record."""
        track = self.part.track
        place = self.calls.setdefault(call, len(self.calls))
        if place == len(track.calls):
            track.calls.append(call)
        track.add(
            place, 0, Progress.UNKNOWN, one.time_ns or -1, -1 if one.number is None else one.number
        )
        if is_async is False:
            track.more[len(track) - 1] = (False, None)

    def member(self, group: str, place: int | None) -> int | None:
        """Return the global rank of a place in a group."""
        if place is None or place < 0:
            return None
        known = self.part.groups.get(group)
        if known is None or known.ranks is None:
            return place if group == "world" else None
        return known.ranks[place] if place < len(known.ranks) else None


def groups_of(config: Any, world_size: int | None) -> dict[str, PartGroup]:
    """Return the groups of a list of ``{pg_name, pg_desc, ranks}``; the default one may be bare."""
    groups: dict[str, PartGroup] = {}
    for spec in config if isinstance(config, list) else []:
        if not isinstance(spec, dict):
            continue
        ranks = spec.get("ranks")
        size = spec.get("pg_size", spec.get("group_size"))
        description = str(spec.get("pg_desc", ""))[:200]
        is_world = description == "default_pg" or str(spec.get("pg_name")) in ("0", "default_pg")
        if not isinstance(ranks, list) or len(ranks) > MAX_MEMBERS:
            ranks = []
        if not all(type(rank) is int and 0 <= rank < MAX_MEMBERS for rank in ranks):
            ranks = []
        if is_world and not ranks and type(size) is int and 0 < size <= MAX_MEMBERS:
            ranks = list(range(size))
        if is_world and not ranks and world_size:
            ranks = list(range(world_size))
        name = "world" if is_world else str(spec.get("pg_name", ""))[:200]
        shown = "" if is_world or description == "undefined" else description
        groups[name] = PartGroup(tuple(ranks) or None, shown, len(ranks) or None)
    return groups


def _number(values: list[Any], place: int) -> int | None:
    """Return an argument that is a number; Kineto writes numbers as text."""
    if place >= len(values):
        return None
    value = values[place]
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 10:
        value = int(value)
    return value if type(value) is int and abs(value) < 1 << 31 else None


def _shape(op: str, counts: tuple[Any, Any]) -> tuple[Any, Any] | None:
    """Return what goes in and comes out of a call whose parts may be uneven, None of others."""
    return counts if op.startswith("all_to_all") else None


def _parts(op: str, rows: Any, count: Any) -> tuple[int, ...] | None:
    """Return the elements of each part of a call; None where they are not there, or not all.

    ``record_param_comms`` tells rows of the first dimension, and cuts long lists (torch 2.13.0).
    """
    if not op.startswith("all_to_all") or not isinstance(rows, str) or type(count) is not int:
        return None
    if not _ROWS.fullmatch(rows):
        return None
    parts = [int(number) for number in re.findall(r"\d+", rows)]
    total = sum(parts)
    if (count % total if total else count) or not 0 <= count < 1 << 62:
        return None
    return tuple(part * (count // total) if total else 0 for part in parts)


def _size(op: str, one: Dispatch) -> tuple[int | None, str | None]:
    """Return count and element type by the plan format's rule for the operation."""
    # Outputs come first in c10d's schemas; gather and all_gather count their second argument.
    place = 1 if SPELLINGS.get(op, op) == "all_gather" or op == "gather" else 0
    if op.startswith("all_to_all") or (op == "reduce_scatter" and len(one.shapes) > 1):
        place = 0
    shapes = one.shapes[place] if place < len(one.shapes) else None
    name = str(one.types[place]) if place < len(one.types) else ""
    inner = name.partition("(")[2].rstrip(")").rpartition("(")[2] if "(" in name else name
    return elements(shapes), element_type(inner.partition(",")[0].removesuffix(")"))


def elements(shapes: Any, depth: int = 0) -> int | None:
    """Return the elements of a shape, or of a list of one shape."""
    if not isinstance(shapes, list) or depth > 3 or len(shapes) > 4096:
        return None
    if all(type(size) is int for size in shapes):
        total = 1
        for size in shapes:
            total *= size
            if not 0 <= total < 1 << 62:
                return None
        return total if shapes or depth else None
    inner = [elements(shape, depth + 1) for shape in shapes]
    return None if None in inner else sum(inner)  # type: ignore[arg-type]
