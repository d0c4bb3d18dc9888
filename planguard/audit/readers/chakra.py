"""Chakra execution traces: a stream of length-delimited protobuf messages, decoded by hand.

Only the fields that a communication needs are looked at; everything else is skipped by its wire
type, so that later versions of the schema stay readable.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Any

from planguard.audit.readers.part import Part
from planguard.errors import PlanError
from planguard.plan.vocabulary import CHAKRA
from planguard.recording import Call, Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

SEND, RECV, COLLECTIVE = 5, 6, 7
MAX_NODES = 10_000_000


def read_chakra(data: bytes, file: str) -> Part:
    """Return the communications of a trace in an order that its dependencies allow.

    Raises:
        PlanError: Not such a stream, damaged, or with a cycle among its dependencies.
    """
    try:
        messages = list(_messages(data))
        nodes = [_node(message) for message in messages[1:]]
    except (IndexError, ValueError, struct.error, UnicodeDecodeError) as error:
        raise PlanError(
            f"not a Chakra trace: {error}", file=file, hint="recordings of a known kind only"
        ) from None
    if not nodes:
        raise PlanError("not a Chakra trace: no nodes", file=file)
    if len({node["id"] for node in nodes}) < len(nodes):
        raise PlanError("not a Chakra trace: two nodes have one id", file=file)
    part = Part("chakra", file)
    places: dict[Call, int] = {}
    for node in _ordered(nodes, file):
        if node["type"] not in (SEND, RECV, COLLECTIVE):
            continue
        call = _call(node)
        place = places.setdefault(call, len(places))
        if place == len(part.track.calls):
            part.track.calls.append(call)
        part.track.add(place, 0, Progress.UNKNOWN, number=node["id"])
    return part


def _call(node: dict[str, Any]) -> Call:
    about = node["attr"]
    group = str(about.get("pg_name") or "world")[:200]
    size = about.get("comm_size")
    nbytes = size if isinstance(size, int) and 0 <= size < 1 << 62 else None
    if node["type"] == COLLECTIVE:
        number = about.get("comm_type", 0)
        is_known = isinstance(number, int) and 0 <= number < len(CHAKRA)
        op = CHAKRA[number] if is_known else "unknown"
        return Call(op, group, nbytes=None if op == "barrier" else nbytes)
    op, other = ("send", "comm_dst") if node["type"] == SEND else ("recv", "comm_src")
    peer, tag = about.get(other), about.get("comm_tag", 0)
    return Call(
        op,
        "world" if group == "world" else group,
        peer=peer if isinstance(peer, int) and 0 <= peer < 1 << 20 else None,
        tag=tag if isinstance(tag, int) and 0 <= tag < 1 << 31 else 0,
        nbytes=nbytes,
    )


def _ordered(nodes: list[dict[str, Any]], file: str) -> list[dict[str, Any]]:
    """Return nodes in an order that control and data dependencies allow, by id where they do."""
    known = {node["id"] for node in nodes}
    waits = {node["id"]: {dep for dep in node["deps"] if dep in known} for node in nodes}
    if all(dep < number for number, deps in waits.items() for dep in deps):
        return sorted(nodes, key=lambda node: int(node["id"]))
    by_id = {node["id"]: node for node in nodes}
    behind: dict[int, list[int]] = {}
    for number, deps in waits.items():
        for dep in deps:
            behind.setdefault(dep, []).append(number)
    left = {number: len(deps) for number, deps in waits.items()}
    ready = deque(sorted(number for number, count in left.items() if not count))
    order = []
    while ready:
        number = ready.popleft()
        order.append(by_id[number])
        for follower in sorted(behind.get(number, ())):
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
    if len(order) < len(waits):
        raise PlanError("dependencies of the trace form a cycle", file=file)
    return order


# --- protobuf ------------------------------------------------------------------------------------


def _messages(data: bytes) -> Iterator[bytes]:
    place = count = 0
    while place < len(data):
        length, place = _varint(data, place)
        if length > len(data) - place:
            raise ValueError("a message is longer than the file")
        count += 1
        if count > MAX_NODES:
            raise ValueError("too many messages")
        yield data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, place
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield field number, wire type and raw value of a message."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        value: Any
        if wire == 0:
            value, place = _varint(data, place)
        elif wire == 2:
            length, place = _varint(data, place)
            if length > len(data) - place:
                raise ValueError("a field is longer than its message")
            value = data[place : place + length]
            place += length
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
            value = int.from_bytes(data[place : place + width], "little")
            if place + width > len(data):
                raise ValueError("a field is longer than its message")
            place += width
        else:
            raise ValueError(f"wire type {wire}")
        yield number, wire, value


def _node(data: bytes) -> dict[str, Any]:
    """Return what is needed of a node; proto3 leaves out an id of zero."""
    node: dict[str, Any] = {"id": 0, "type": 0, "deps": [], "attr": {}}
    for number, wire, value in _fields(data):
        if number == 1 and wire == 0:
            node["id"] = value
        elif number == 3 and wire == 0:
            node["type"] = value
        elif number in (4, 5) and wire not in (0, 2):
            raise ValueError(f"dependencies of wire type {wire}")
        elif number in (4, 5):
            node["deps"] += [value] if wire == 0 else _packed(value)
        elif number == 10 and wire == 2:
            name, told = _attribute(value)
            node["attr"][name] = told
    return node


def _packed(data: bytes) -> list[int]:
    values, place = [], 0
    while place < len(data):
        value, place = _varint(data, place)
        values.append(value)
    return values


def _attribute(data: bytes) -> tuple[str, Any]:
    name, value = "", None
    for number, wire, raw in _fields(data):
        if number == 1 and wire == 2:
            name = raw.decode("utf-8")
        elif number in (7, 9, 11, 13) and wire == 0:
            value = raw - (1 << 64) if number in (7, 9) and raw >= 1 << 63 else raw
        elif number in (15, 17) and wire == 0:
            value = (raw >> 1) ^ -(raw & 1)
        elif number in (19, 21, 23, 25) and wire == 2:
            value = raw
        elif number == 27 and wire == 0:
            value = bool(raw)
        elif number == 29 and wire == 2:
            value = raw.decode("utf-8")
    return name, value
