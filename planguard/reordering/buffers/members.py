"""Fused buffers of a plan, taken apart: who is a member where, and what is ready before what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError
from planguard.plan.vocabulary import FUSIBLE, bytes_of

if TYPE_CHECKING:
    from planguard.reordering.blocks import Leaf

_KNOWN = frozenset(
    {"op", "id", "label", "bytes", "count", "dtype", "async", "work", "group", "reduce_op"}
    | {"src", "ns", "mb", "stage", "phase"}
)
"""Fields of a member that its flush takes over or may lose."""


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

    @cached_property
    def names(self) -> frozenset[str]:
        """The members, for asking whether a name is one."""
        return frozenset(self.members)

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


def is_member(buffer: Buffer, leaf: Leaf) -> bool:
    """Whether an action is a member of a buffer."""
    fields = leaf.fields
    return fields.get("id") in buffer.names and fields.get("group", "world") == buffer.group


def size_of(buffer: Buffer, fields: dict[str, Any]) -> int:
    """Return the bytes of a member after checking that a flush can stand for it.

    Raises:
        UndecidedError: It cannot; the message says why.
    """
    name = f"member {fields['id']} of fused buffer {buffer.id}"
    if fields["op"] not in FUSIBLE:
        raise UndecidedError(f"{name} is a {fields['op']}; only reductions are merged")
    unknown = [key for key in fields if key not in _KNOWN and not key.startswith("x-")]
    if unknown:
        raise UndecidedError(f"{name} has {', '.join(sorted(unknown))}")
    size = bytes_of(fields)
    if size is None:
        raise UndecidedError(f"{name} has no size")
    return size
