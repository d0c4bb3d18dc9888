"""Part: what one file says. ``assemble`` makes a recording of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from planguard.recording import Track

if TYPE_CHECKING:
    from planguard.errors import PlanError
    from planguard.recording import Absence
    from planguard.verdict import Source

PRIORITY = (
    "run", "log", "flight-recorder", "clog", "kineto", "execution-trace", "chakra",
    "nccl-log", "stderr", "ras", "stacks",
)  # fmt: skip
"""Which of several recordings of one rank tells most; the others lend what it lacks."""


PARTIAL = {
    "stderr": "logs of ranks tell only of what failed",
    "stacks": "a stack shows where a rank stood at one moment, and not which call that was",
    "ras": "RAS counts what was launched, and not what came to its end",
}
"""Kinds that leave out calls which their rank made, and what they do tell."""
CONCLUDED = "is concluded from the dumps"
"""What a note says of a number of ranks that nothing states."""
LOCAL = "the number that torchrun gives a process on its node is taken for its rank"
"""Doubt of what is told of a rank that only such a number names."""
WITHOUT_TRACEBACK = "an error stands there without its traceback: the rank may have gone on"
"""Doubt of an error that is known by its words alone."""
LOST_END = "lost-end"
"""Kind of the gap of a rank whose last records are missing."""
DOUBT = "doubt"
"""Kind of the gap of a reading that had to assume whose words it reads: nothing is certain then."""
MOMENT = "moment"
"""Kind of the gap of recordings of different moments, maybe: who did not come may have come."""
TIMED_OUT = "timed-out"
"""Kind of the gap of ranks whose logs tell of calls that failed, beside other recordings."""
STATES = "states"
"""What a recorder lacks that writes down that calls were issued, and never how far they came."""
SILENT = "silent"
"""Kind of a part that says that a rank exists, and nothing of it."""
UNREAD = "unread"
"""Kind of a part of a file that could not be read."""
NO_FAILURE = "the last start of the job tells of no failure; start {} of {}"
CAME_TO_END = "the last start of the job came to its end; start {} of {}"
"""What is said first where an earlier start of a job is audited, and which one that is."""
PLAN = "plan"
"""Kind of a part of a plan: no evidence, but what the evidence is compared with."""
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
        places: Global ranks by their place in the group, as far as they were seen.
    """

    ranks: tuple[int, ...] | None = None
    description: str = ""
    size: int | None = None
    backend: str | None = None
    places: dict[int, int] = field(default_factory=dict)

    def __reduce__(self) -> tuple[object, ...]:
        return (PartGroup, (self.ranks, self.description, self.size, self.backend, self.places))


@dataclass(frozen=True)
class Init:
    """A communicator that a process was creating.

    Attributes:
        place: Its rank in it.
        size: Ranks that have to come.
        is_done: It came to the end of the creation: all had come.
        what: What is being created, as a message names it; "" where only the size is known.
        by: Who says so.
        is_job: The places are ranks of the job; None where that is not known.
        ends_unseen: That it ended is seen only where something else follows.
    """

    place: int
    size: int
    is_done: bool
    what: str = ""
    by: str = "NCCL's log"
    is_job: bool | None = None
    ends_unseen: bool = False


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
        process: What tells the process of a stack, or of words without a rank, from others.
        has_moved: Another stack of the process shows it elsewhere: it is not stuck.
        arguments: Values of the call's arguments, where the stack file shows locals.
        notes: What the reader had to assume.
        attempt: How often the job had been started anew before.
        lacks: What this kind of recorder does not write down, as words.
        crash: The error that ended the rank and is no consequence of others, or "".
        doubt: What had to be assumed to read it so, in one sentence; "" if nothing.
        unseen: How its rank may communicate beside the calls, in one sentence each.
        absences: What it says of others that did not come.
        inits: Communicators that it was creating, by their identities.
        oversized: Bytes that came and bytes that fit, where gloo ended the rank for that.
        error: Why a file could not be read, of a part of kind ``UNREAD``.
        begins: How a file begins that could not be read or was not understood.
        start: Which start of the job it is of, where later ones say nothing of their calls.
        is_over: A later start of the job came to its end, by the word of its launcher.
        remarks: What is worth telling and limits nothing.
        trouble: What it says that no job says that is well, of nobody's call; "" if nothing.
        models: What DDP says of the models of ranks that differ, by rank.
        run: What tells the run of it from others, where its kind has that.
        runs_before: What its file shows to be of earlier runs.
        written_ns: When its file was written, by its file system.
        day: Month and day of the last words of a watchdog, as ``1119``; "" where they have none.
        asked: When the report was made, where it says so.
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
    process: object = None
    has_moved: bool = False
    arguments: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    attempt: int = 0
    lacks: tuple[str, ...] = ()
    crash: str = ""
    doubt: str = ""
    unseen: tuple[str, ...] = ()
    absences: tuple[Absence, ...] = ()
    inits: dict[str, Init] = field(default_factory=dict)
    oversized: tuple[int, int] | None = None
    error: PlanError | None = None
    begins: str = ""
    start: str = ""
    is_over: bool = False
    remarks: list[str] = field(default_factory=list)
    trouble: str = ""
    models: dict[int, str] = field(default_factory=dict)
    run: str = ""
    runs_before: tuple[str, ...] = ()
    written_ns: int | None = None
    day: str = ""
    asked: str = ""

    def __reduce__(self) -> tuple[object, ...]:
        # Without the names of the fields, which are most of what is written of one else.
        return (_restored, _values(self))

    def says_as(self, other: Part) -> bool:
        """Tell whether the words of another part are these: somebody collected them twice."""
        return (self.kind, self.crash, self.stack, self.inside, self.absences) == (
            other.kind, other.crash, other.stack, other.inside, other.absences
        ) and self.track == other.track  # fmt: skip

    def add_groups(self, other: Part) -> None:
        """Add what another part of the same rank says of groups."""
        for name, group in other.groups.items():
            own = self.groups.setdefault(name, group)
            own.ranks, own.size = own.ranks or group.ranks, own.size or group.size
            own.backend = own.backend or group.backend
            own.places |= group.places

    def rename_group(self, name: str, own: str) -> None:
        """Give a group another name than its file does."""
        self.groups[own] = self.groups.pop(name)
        calls = self.track.calls
        for place, call in enumerate(calls):
            if call.group == name:
                calls[place] = replace(call, group=own)

    def stands_as(self, other: Part) -> bool:
        """Tell whether the stack of another part shows the same place of the program."""
        return (self.inside, self.stack) == (other.inside, other.stack)


_FIELDS = tuple(one.name for one in fields(Part))
_values = attrgetter(*_FIELDS)


def _restored(*values: object) -> Part:
    part = Part.__new__(Part)
    part.__dict__.update(zip(_FIELDS, values, strict=True))
    return part
