"""The protobuf of Chakra, decoded by hand: a stream of length-delimited messages.

Only what a communication needs is looked at; the rest is skipped by its wire type, so that later
versions of the schema stay readable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NODES = 2_000_000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGNED, _UNSIGNED, _ZIGZAG = (7, 9), (11, 13), (15, 17)
_BOOL, _STRING = 27, 29


def messages(data: bytes) -> Iterator[bytes]:
    """Yield the messages of a file.

    Raises:
        ValueError: A message ends behind the file, or there are too many.
        IndexError: The file ends inside a length.
    """
    place = count = 0
    while place < len(data):
        length, place = _varint(data, place)
        if length > len(data) - place:
            raise ValueError("a message is longer than the file")
        count += 1
        if count > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES} nodes")
        yield data[place : place + length]
        place += length


def node_of(data: bytes, known: dict[bytes, tuple[str, Any]]) -> dict[str, Any]:
    """Return id, name, type, dependencies and attributes of a node.

    Args:
        data: The message.
        known: Attributes that were read before, by their bytes: a trace has few different ones,
            and most of its bytes are attributes.

    Raises:
        ValueError: The message is malformed.
        IndexError: It ends inside a number.
    """
    node: dict[str, Any] = {"id": 0, "name": "", "type": 0, "deps": [], "attr": {}}
    for number, wire, value in _fields(data):
        if number == 1 and wire == _VARINT:
            node["id"] = value
        elif number == 2 and wire == _BYTES:
            node["name"] = value.decode("utf-8")
        elif number == 3 and wire == _VARINT:
            node["type"] = value
        elif number in (4, 5) and wire in (_VARINT, _BYTES):
            node["deps"] += [value] if wire == _VARINT else _packed(value)
        elif number == 10 and wire == _BYTES:
            told = known.get(value)
            if told is None:
                told = known[value] = _attribute(value)
            node["attr"][told[0]] = told[1]
    return node


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


def _fields(data: bytes) -> list[tuple[int, int, Any]]:
    """Return field number, wire type and raw value of each field of a message.

    Most numbers are below 128, one byte each, which is not worth a call.
    """
    found: list[tuple[int, int, Any]] = []
    place, end = 0, len(data)
    while place < end:
        key = data[place]
        place += 1
        if key > 127:
            key, place = _varint(data, place - 1)
        number, wire = key >> 3, key & 7
        if wire in (_VARINT, _BYTES):
            value = data[place]
            place += 1
            if value > 127:
                value, place = _varint(data, place - 1)
            if wire == _VARINT:
                found.append((number, wire, value))
                continue
            width = value
        elif wire in (_FIXED32, _FIXED64):
            width = 4 if wire == _FIXED32 else 8
        else:
            raise ValueError(f"wire type {wire}")
        if width > end - place:
            raise ValueError("a field is longer than its message")
        raw = data[place : place + width]
        place += width
        found.append((number, wire, raw if wire == _BYTES else int.from_bytes(raw, "little")))
    return found


def _packed(data: bytes) -> list[int]:
    values, place = [], 0
    while place < len(data):
        value, place = _varint(data, place)
        values.append(value)
    return values


def _attribute(data: bytes) -> tuple[str, Any]:
    """Return name and value of an attribute; None for kinds that no communication has."""
    name, value = "", None
    for number, wire, raw in _fields(data):
        if number == 1 and wire == _BYTES:
            name = raw.decode("utf-8")
        elif wire == _VARINT and number in _SIGNED:
            value = raw - (1 << 64) if raw >= 1 << 63 else raw
        elif wire == _VARINT and number in _UNSIGNED:
            value = raw
        elif wire == _VARINT and number in _ZIGZAG:
            value = (raw >> 1) ^ -(raw & 1)
        elif wire == _VARINT and number == _BOOL:
            value = bool(raw)
        elif wire in (_FIXED32, _FIXED64) and number in (19, 21, 23, 25):
            value = raw
        elif wire == _BYTES and number == _STRING:
            value = raw.decode("utf-8")
    return name, value
