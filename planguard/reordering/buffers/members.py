"""Fused buffers of a plan, taken apart: who is a member where, and what is ready before what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError
from planguard.plan.vocabulary import FUSIBLE, bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planguard.reordering.blocks import Leaf

_KNOWN = frozenset(
    {"op", "id", "label", "bytes", "count", "dtype", "async", "work", "group", "reduce_op"}
    | {"src", "ns", "mb", "stage", "phase"}
)
"""Fields of a member that its flush takes over or may lose."""


@dataclass(frozen=True)
class Buffer:
    """One entry of ``fusion`` for one group, every default filled in.

    A policy that is not stated is the least coordinated one. ``spec`` is its entry in the plan.
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
    spec: int = 0

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

    @cached_property
    def labeled(self) -> frozenset[bool]:
        """Whether members have labels: all, none, or some."""
        return frozenset("label" in leaf.fields for leaf in self.leaves)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The identity of every member: its label, else its id."""
        rows = (leaf.fields for leaf in self.leaves)
        return tuple(str(fields.get("label", fields["id"])) for fields in rows)

    def name(self, element: int) -> str:
        """Return the identity of a member."""
        return self.names[element]


def buffers_of(entries: Iterable[tuple[int, dict[str, Any]]]) -> list[Buffer]:
    """Return the fused buffers of a flat plan, given with their numbers in the plan."""
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
            number,
        )
        for number, spec in entries
    ]


Homes = dict[tuple[str, str], tuple[int, ...]]
"""Group and id of a member to the buffers it is in, by their places in a list."""


def homes_of(buffers: Sequence[Buffer]) -> Homes:
    """Return where the members of all buffers are.

    Asked once for a plan: every group instance of a mesh has buffers of its own, so to look
    through all of them for every action of every rank takes the square of the ranks.
    """
    found: Homes = {}
    for number, buffer in enumerate(buffers):
        for name in dict.fromkeys(buffer.members):
            key = buffer.group, name
            found[key] = (*found.get(key, ()), number)
    return found


def home_of(homes: Homes, leaf: Leaf) -> tuple[int, ...]:
    """Return the buffers that an action is a member of; more than one is not decided."""
    fields = leaf.fields
    name = fields.get("id")
    return () if name is None else homes.get((fields.get("group", "world"), name), ())


def handles_of(fields: dict[str, Any]) -> list[str]:
    """Return the handles that an action names."""
    named = fields.get("work", [])
    return [named] if isinstance(named, str) else list(named)


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
