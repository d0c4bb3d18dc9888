"""Single observed actions: what was called, and how far it was seen to come."""

from __future__ import annotations

import enum
from typing import Any

from msgspec import Struct

from planguard.plan.vocabulary import ALONE, MESSAGES, SPELLINGS, bytes_of
from planguard.verdict import Source
from planguard.words import size

UNRECORDED = "unrecorded"
"""Operation of a placeholder: the recorder counted a call that it did not write down."""

UNNAMED = "collective"
"""Operation of a collective of which its round is known and its kind is not."""


class Progress(enum.IntEnum):
    """How far an action was seen to come. ``FAILED``: it ended without having happened."""

    UNKNOWN = 0
    ISSUED = 1
    STARTED = 2
    COMPLETED = 3
    FAILED = 4


class Call(Struct, frozen=True, gc=False):
    """What was called. Equal calls of a recording are one object.

    Attributes:
        op: Operation in torch spelling, or ``UNRECORDED``.
        group: Name of the group in the recording; None for local actions.
        peer: Global rank of the other side of a send or receive; None when it is not known.
        tag: Tag of a send or receive.
        root: Global rank of the root, where recorded.
        reduce_op: Reduce operation, where recorded.
        count: Elements, by the plan format's rule for the operation.
        dtype: Element type as in plan files.
        nbytes: Size in bytes where ``count`` and ``dtype`` are not known.
        shape: The shapes as recorded, for messages and comparisons only.
        label: Logical identity of the data, where recorded.
        stack: Call site, innermost frame first, frames of libraries left out.
    """

    op: str
    group: str | None = None
    peer: int | None = None
    tag: int = 0
    root: int | None = None
    reduce_op: str | None = None
    count: int | None = None
    dtype: str | None = None
    nbytes: int | None = None
    shape: tuple[Any, ...] | None = None
    in_splits: tuple[int, ...] | None = None
    out_splits: tuple[int, ...] | None = None
    label: str | None = None
    stack: tuple[Source, ...] = ()

    @property
    def source(self) -> Source | None:
        """The innermost frame that is no library's."""
        return self.stack[0] if self.stack else None

    @property
    def bytes(self) -> int | None:
        """Size in bytes, if it is known."""
        if self.nbytes is not None:
            return self.nbytes
        return bytes_of({"count": self.count, "dtype": self.dtype})

    @property
    def family(self) -> str:
        """The operation under its one name."""
        return SPELLINGS.get(self.op, self.op)

    @property
    def is_point_to_point(self) -> bool:
        """True for sends and receives, blocking or not."""
        return self.op in MESSAGES

    @property
    def is_communication(self) -> bool:
        """True for collectives, sends, receives and placeholders."""
        return self.op not in ALONE

    @property
    def is_collective(self) -> bool:
        """True for collectives."""
        return self.is_communication and not self.is_point_to_point and self.op != UNRECORDED

    def text(self) -> str:
        """Return the call in one line, as plans describe actions: ``send -> 6  4.00 MiB f16``."""
        if self.op == UNRECORDED:
            return f"(not recorded)  {self.group or ''}".rstrip()
        words = [self.op]
        if self.is_point_to_point:
            arrow = "->" if self.family == "send" else "<-"
            words[0] += f" {arrow} {'?' if self.peer is None else self.peer}"
        if self.group not in (None, "world"):
            words.append(str(self.group))
        if self.root is not None:
            words.append(f"root {self.root}")
        if self.reduce_op is not None and self.reduce_op != "sum":
            words.append(self.reduce_op)
        if self.label:
            words.append(self.label)
        if self.bytes is not None:
            words.append(f"{size(self.bytes)} {self.dtype or ''}".rstrip())
        return "  ".join(words)


class Observed(Struct, frozen=True, gc=False):
    """One action of one rank, as it was seen.

    Attributes:
        call: What was called.
        position: 1-based place among the calls of its kind: the round of a collective on its
            group, the number of a send or receive on its channel; 0 where it has none.
        progress: How far it came.
        is_async: False when the host waited inside the call; None when that is not known.
        work: Name of its handle; the handle waited for, of a ``wait``.
        batch: Number of the launch it was part of, or None.
        created_ns: When it was issued, nanoseconds of the rank's own clock, or None.
        number: The recorder's own number of the action, for people to find it again.
    """

    call: Call
    position: int = 0
    progress: Progress = Progress.UNKNOWN
    is_async: bool | None = None
    work: str | None = None
    batch: int | None = None
    created_ns: int | None = None
    number: int | None = None

    @property
    def is_pending(self) -> bool:
        """True when it was issued and not seen to complete."""
        return self.progress in (Progress.ISSUED, Progress.STARTED)
