"""Fused buffers of a plan, taken apart: who is a member where, and what is ready before what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.reordering.blocks import Block, Leaf, RankOrder, extensions, reaches

if TYPE_CHECKING:
    from collections.abc import Iterator

_DTYPE_BYTES = {
    "f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2,
    "f8": 1, "i8": 1, "u8": 1, "bool": 1,
}  # fmt: skip

_KNOWN = frozenset(
    {"op", "id", "label", "bytes", "count", "dtype", "async", "work", "group", "reduce_op"}
    | {"src", "ns", "mb", "stage", "phase"}
)
"""Fields of a member that its flush takes over or may lose."""


class UndecidedError(Exception):
    """A fused buffer is used in a way that is not decided; the message says which."""


@dataclass(frozen=True)
class Buffer:
    """One entry of ``fusion`` for one group, every default filled in.

    A policy that is not stated is the least coordinated one.
    """

    id: str
    group: str
    cap: int | None
    buffers: int | None
    coordination: str
    membership: str
    launch: str
    drain: str
    members: tuple[str, ...]

    @property
    def is_coordinated(self) -> bool:
        """Whether the ranks agree on one order before they flush."""
        return self.coordination != "none"


@dataclass(frozen=True)
class Ready:
    """The members of one buffer on one rank, numbered in an order readiness admits.

    Attributes:
        leaves: The member actions.
        parts: Index of the part of the rank's program in which each becomes ready.
        below: Bit mask of the members that are always ready before.
        sizes: Bytes.
        declared: The members in the order of the buffer's list.
    """

    leaves: tuple[Leaf, ...]
    parts: tuple[int, ...]
    below: tuple[int, ...]
    sizes: tuple[int, ...]
    declared: tuple[int, ...]

    @property
    def total(self) -> int:
        """Bytes of all members."""
        return sum(self.sizes)

    def name(self, element: int) -> str:
        """Return the identity of a member: its label, else its id."""
        fields = self.leaves[element].fields
        return str(fields.get("label", fields["id"]))


def buffers_of(flat: dict[str, Any]) -> list[Buffer]:
    """Return the fused buffers of a flat plan."""
    return [
        Buffer(
            spec["id"],
            spec.get("group", "world"),
            spec.get("cap_bytes"),
            spec.get("buffers"),
            spec.get("coordination", "none"),
            spec.get("membership", "fill"),
            spec.get("launch", "when-ready"),
            spec.get("drain", "free"),
            tuple(spec["members"]),
        )
        for spec in flat["fusion"]
    ]


def ready_of(buffer: Buffer, order: RankOrder) -> Ready | None:
    """Return the members that a rank has of a buffer, or None if it has none.

    Raises:
        UndecidedError: A member is used in a way that is not decided.
    """
    found: list[tuple[Leaf, int]] = []
    below: list[int] = []
    earlier = 0
    for part, leaves, before in _blocks(order):
        numbers: dict[int, int] = {}
        inside = [
            at for at in next(extensions(Block(leaves, before))) if _is_in(buffer, leaves[at])
        ]
        closed = reaches(Block(leaves, before)) if inside else []
        for at in inside:
            numbers[at] = len(found)
            below.append(earlier | sum(1 << numbers[b] for b in closed[at] if b in numbers))
            found.append((leaves[at], part))
        earlier = (1 << len(found)) - 1
    if not found:
        return None
    place = {name: at for at, name in enumerate(buffer.members)}
    declared = sorted(range(len(found)), key=lambda at: place[found[at][0].fields["id"]])
    return Ready(
        tuple(leaf for leaf, _ in found),
        tuple(part for _, part in found),
        tuple(below),
        tuple(_size(buffer, leaf.fields) for leaf, _ in found),
        tuple(declared),
    )


def _blocks(
    order: RankOrder,
) -> Iterator[tuple[int, tuple[Leaf, ...], tuple[frozenset[int], ...]]]:
    for number, part in enumerate(order.parts):
        if isinstance(part, Block):
            yield number, part.leaves, part.before
        else:
            yield number, (part,), (frozenset(),)


def _is_in(buffer: Buffer, leaf: Leaf) -> bool:
    fields = leaf.fields
    return fields.get("id") in buffer.members and fields.get("group", "world") == buffer.group


def _size(buffer: Buffer, fields: dict[str, Any]) -> int:
    """Return the bytes of a member after checking that a flush can stand for it."""
    name = f"member {fields['id']} of fused buffer {buffer.id}"
    if fields["op"] != "all_reduce":
        raise UndecidedError(f"{name} is a {fields['op']}; only all_reduce is merged")
    if not fields.get("async"):
        raise UndecidedError(f"{name} is not asynchronous")
    unknown = [key for key in fields if key not in _KNOWN and not key.startswith("x-")]
    if unknown:
        raise UndecidedError(f"{name} has {', '.join(sorted(unknown))}")
    if "bytes" in fields:
        return int(fields["bytes"])
    if "count" in fields and fields.get("dtype") in _DTYPE_BYTES:
        return int(fields["count"]) * _DTYPE_BYTES[fields["dtype"]]
    raise UndecidedError(f"{name} has no size")
