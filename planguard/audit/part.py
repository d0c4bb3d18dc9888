"""Part: what one file says. ``assemble`` makes a recording of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.recording import Track

if TYPE_CHECKING:
    from planguard.verdict import Source

PRIORITY = (
    "run", "log", "plan", "flight-recorder", "execution-trace", "kineto", "chakra", "nccl-log",
)  # fmt: skip
"""Which of several recordings of one rank tells most; the others lend what it lacks."""


LOST_END = "lost-end"
"""Kind of the gap of a rank whose last records are missing."""
UNSAID = "?"
"""Group of calls that do not say theirs; ``assemble`` gives every rank its own."""


@dataclass
class PartGroup:
    """A group as one file names it.

    Attributes:
        ranks: Global ranks in order, or None when the file does not say.
        description: What the program calls it.
        size: Number of members, where known.
        backend: ``nccl``, ``gloo``, ...
    """

    ranks: tuple[int, ...] | None = None
    description: str = ""
    size: int | None = None
    backend: str | None = None


@dataclass
class Part:
    """What one file says of one rank.

    Attributes:
        kind: Format, as ``files.kind_of`` names it.
        file: Name of the file.
        rank: Rank that its content says, or None.
        world_size: Number of ranks that its content says, or None.
        track: Observed actions.
        groups: Groups by the file's own names; the default group is ``world``.
        dropped: Older actions that the recorder no longer held.
        lost: Why the end of the recording is missing; empty if nothing is known to be.
        has_ended: See ``RankRecord``.
        backend: Backend of the calls, if one.
        version: Version of the recorder.
        library: Version of the communication library.
        stack: Python stack, of a stack file.
        inside: Name of the communication call that the stack stands in.
        arguments: Values of the call's arguments, where the stack file shows locals.
        notes: What the reader had to assume.
        attempt: How often the job had been started anew before.
        lacks: What this kind of recorder does not write down, as words.
    """

    kind: str
    file: str
    rank: int | None = None
    world_size: int | None = None
    track: Track = field(default_factory=Track)
    groups: dict[str, PartGroup] = field(default_factory=dict)
    dropped: int = 0
    lost: str = ""
    has_ended: bool | None = None
    backend: str | None = None
    version: str | None = None
    library: str | None = None
    stack: tuple[Source, ...] = ()
    inside: str | None = None
    arguments: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    attempt: int = 0
    lacks: tuple[str, ...] = ()
