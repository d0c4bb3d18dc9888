"""The fields that calls of a ``ProgramBuilder`` take, as types; None means absent.

``nodes.py`` says what they mean. A test holds the two against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    Peer = int | str | dict[str, int | bool]
    Source = tuple[str, int, str] | tuple[str, int] | tuple[str] | Sequence[Any]


class PlainFields(TypedDict, total=False):
    """What every action may have, but for its stream."""

    id: str | None
    src: Source | None
    label: str | None
    reads: Sequence[str] | None
    writes: Sequence[str] | None
    after: Sequence[str] | None
    ns: str | None
    mb: int | None
    stage: int | None
    phase: str | None


class ActionFields(PlainFields, total=False):
    """What every action may have."""

    stream: str | None


class SizeFields(ActionFields, total=False):
    """How much it moves: ``bytes``, or ``count`` or ``shape`` with ``dtype``, or ``tensor``.

    ``dtype`` is a name (``f32``, ``float32``), a ``torch.dtype`` or a numpy dtype.
    """

    bytes: int | None
    count: int | None
    dtype: Any
    tensor: str | None
    shape: Sequence[int] | None


class MessageFields(SizeFields, total=False):
    """A send, a receive or a probe."""

    tag: int | str | None
    group: str | None


class RecvFields(MessageFields, total=False):
    """A receive."""

    work: str | None


class SendFields(RecvFields, total=False):
    """A send."""

    mode: Literal["standard", "synchronous", "buffered", "ready"] | None


class CollectiveFields(SizeFields, total=False):
    """A collective; ``async_`` and torch's ``async_op`` are one field."""

    reduce_op: str | None
    in_splits: Sequence[int] | None
    out_splits: Sequence[int] | None
    async_: bool | None
    async_op: bool | None
    work: str | None


class CoalescedFields(ActionFields, total=False):
    """A coalesced collective."""

    reduce_op: str | None
    async_: bool | None
    async_op: bool | None
    work: str | None


class PartFields(TypedDict, total=False):
    """One tensor of a coalesced collective."""

    op: str | None
    label: str | None
    reads: Sequence[str] | None
    writes: Sequence[str] | None
    bytes: int | None
    count: int | None
    dtype: Any
    tensor: str | None
    shape: Sequence[int] | None


class ComputeFields(ActionFields, total=False):
    """A computation."""

    duration_us: float | None
    flops: float | None
    bytes: int | None


class CopyFields(SizeFields, total=False):
    """A copy between memories."""

    path: Literal["peer", "via_host", "nic", "local"] | None
    memory: Literal["explicit", "unified", "zero-copy"] | None
