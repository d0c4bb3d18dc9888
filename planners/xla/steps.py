"""What one device does: the steps between reading a program and writing a plan."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Sequence


class Origin(Struct, frozen=True):
    """Where a step comes from.

    Attributes:
        program: Number of the program.
        name: Name of the instruction, behind the calls that lead to it.
        round: Iterations of the unrolled loops around it, ``[2]``; ``[{i}]`` inside a loop.
        line: Line of the text.
        place: The user's code, ``model.py:20 loss``; empty if unknown.
        op_name: The name that the framework gave it.
        channel: Its ``channel_id``, or an empty string.
    """

    program: int
    name: str
    round: str
    line: int
    place: str = ""
    op_name: str = ""
    channel: str = ""

    @property
    def text(self) -> str:
        """Name and round."""
        return self.name + self.round


class Part(Struct, frozen=True):
    """One tensor that moves: its bytes, None if unknown, and its element type in the plan."""

    bytes: int | None
    dtype: str | None


class Ranks(tuple[int, ...]):  # noqa: SLOT001 - a tuple cannot have slots
    """Ranks in the order of their group, hashed once: every step of every member holds them."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash


class Collective(Struct, frozen=True):
    """A collective of the group of this device; ``handle`` is set if it is asynchronous."""

    op: str
    origin: Origin
    group: tuple[int, ...]
    parts: tuple[Part, ...]
    reduce_op: str | None = None
    root: int | None = None
    handle: str | None = None


class Exchange(Struct, frozen=True):
    """A collective permute as one device sees it: at most one message out and one in."""

    origin: Origin
    domain: tuple[int, ...]
    part: Part
    target: int | None
    source: int | None
    handle: str | None = None


class Message(Struct, frozen=True):
    """A send or a receive; its wait is a step of its own unless it is ``blocking``.

    ``stream`` is the one that it runs on, if that is not the program's.
    """

    origin: Origin
    domain: tuple[int, ...]
    pipeline: str
    part: Part
    peer: int
    sends: bool
    handle: str
    blocking: bool = False
    stream: str | None = None


class Wait(Struct, frozen=True):
    """The wait for an asynchronous step."""

    origin: Origin
    handle: str


class Loop(Struct, frozen=True):
    """A loop whose passes are alike."""

    origin: Origin
    times: int
    body: tuple[Step, ...]


class Choice(Struct, frozen=True):
    """A branch that the data decides; ``uniform`` if every device takes the same one."""

    origin: Origin
    uniform: bool
    branches: tuple[tuple[Step, ...], ...]


class Plain(Struct, frozen=True):
    """Any other action of the plan format: its operation and its fields."""

    origin: Origin
    op: str
    fields: tuple[tuple[str, object], ...] = ()


Sending = Collective | Exchange | Message
SENDING = frozenset({Collective, Exchange, Message})
Step = Sending | Wait | Loop | Choice | Plain


class Doubt(Struct, frozen=True):
    """Something that the plan cannot say exactly.

    Attributes:
        kind: Short name, an entry of the ledger.
        message: The sentence.
        direction: As in the ledger of a plan.
    """

    kind: str
    message: str
    direction: str = "under"


@dataclass
class Trace:
    """The steps of one device and what is in doubt about them."""

    steps: list[Step] = field(default_factory=list)
    doubts: dict[tuple[str, str], Doubt] = field(default_factory=dict)
    undecided: int = 0

    def doubt(self, kind: str, message: str, direction: str = "under") -> None:
        """Add an entry for the ledger, once."""
        self.doubts.setdefault((kind, message), Doubt(kind, message, direction))


def renamed(step: Step, run: str) -> Step:
    """Return a step of one run of a program that runs several times.

    Args:
        step: The step.
        run: Name of the run; its handles and the identity of its data are told apart by it.
    """
    origin = replace(step.origin, round=f"{step.origin.round} of {run}")
    if isinstance(step, Loop):
        return replace(step, origin=origin, body=tuple(renamed(one, run) for one in step.body))
    if isinstance(step, Choice):
        branches = tuple(tuple(renamed(one, run) for one in some) for some in step.branches)
        return replace(step, origin=origin, branches=branches)
    if isinstance(step, Plain):
        return replace(step, origin=origin)
    handle = None if step.handle is None else f"{step.handle} of {run}"
    return replace(step, origin=origin, handle=handle)


def is_sized(step: Sending) -> bool:
    """Tell whether all that moves has a size."""
    parts = step.parts if isinstance(step, Collective) else (step.part,)
    return all(part.bytes is not None for part in parts)


def essence(steps: Sequence[Step]) -> str:
    """Return steps without the names that differ between the branches of a conditional.

    Channels stay: collectives of two channels are two, and XLA's CPU runtime never joins them.
    """
    return re.sub(r"origin=Origin\(.*?channel=('[^']*')\)", r"\1", repr(steps))
