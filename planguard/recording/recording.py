"""Recording: what the ranks of one run were seen doing, and what is missing from it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from planguard.recording.observed import UNRECORDED, Observed, Progress
from planguard.recording.track import Track
from planguard.verdict import Location, Source
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planguard.plan.plan import Plan

WORLD = "world"
CALLS, CRASH, STACK, TIMED, WORDS = "calls", "crash", "stack", "timed", "words"
"""Facts of a rank: what it called, what ended it, where it stands, that calls of it came to their
time limits, what it says of others."""
Fact = str | int
"""One of those, or the index of one action: what another kind of file may tell than the calls."""
BARRIER = "a monitored barrier"
"""What an absence says of a barrier that names who was late."""


@dataclass(frozen=True)
class Gap:
    """Something that the recording does not hold.

    Attributes:
        kind: ``missing-rank``, ``truncated-ring``, ``unresolved-group``, ``unrecorded-calls``,
            ``unknown-size``, ``lost-end``, ``moment``, ``doubt``, ``partial``,
            ``timed-out``, ``unread``.
        message: One sentence.
        code: Finding code: PG911, PG912, PG914 or PG904.
        ranks: Ranks it concerns.
        count: How much is missing, where that is known.
    """

    kind: str
    message: str
    code: str
    ranks: tuple[int, ...] = ()
    count: int | None = None


@dataclass(frozen=True)
class RecordedGroup:
    """A process group as the recording names it.

    Attributes:
        name: Name in the recording; ``world`` is the default group.
        ranks: Members in order, or None when the recording does not tell them.
        seen: Ranks that used it or that some record names as members.
        description: What the program calls it.
        size: Number of members, where it is known.
        is_inferred: The members were concluded from who took part, not recorded.
        created: Position in the order of creation, where it is known.
        backend: ``gloo``, ``nccl``, ..., where its calls say it.
        readings: Where ranks name other members, or in another order: each list, and whose it is.
    """

    name: str
    ranks: tuple[int, ...] | None = None
    seen: tuple[int, ...] = ()
    description: str = ""
    size: int | None = None
    is_inferred: bool = False
    created: int | None = None
    backend: str | None = None
    readings: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()

    @property
    def members(self) -> tuple[int, ...]:
        """The members as far as they are known."""
        return self.seen if self.ranks is None else self.ranks


@dataclass(frozen=True)
class Absence:
    """What a rank, or something that watches the job, said of others that did not come.

    Attributes:
        what: What they did not come to, as a message names it: ``a monitored barrier``.
        ranks: Those that did not come; empty where it does not say who.
        here: Those that came, as far as it says so.
        by: Who says so.
        are_places: The numbers are places in some group, or of threads: no rank of the job.
        all_came: It says that all of them came, and it did not end.
        was_aborted: It does not tell who came: only that a time limit ended it.
        of: All that are due, where it says so.
        due: How many of them are due where it was seen, which may be one host of several.
        went_on: The job printed progress behind it: those who were late may have come.
        has_stopped: It says that nothing is heard of them any more, and not of what they lack.
    """

    what: str
    ranks: tuple[int, ...] = ()
    here: tuple[int, ...] = ()
    by: str = ""
    are_places: bool = False
    all_came: bool = False
    was_aborted: bool = False
    went_on: bool = False
    has_stopped: bool = False
    of: tuple[int, ...] = ()
    due: int = 0

    def with_here(self, here: Iterable[int]) -> Absence:
        """Return the same with all who are known to have come, and so those who did not.

        Each that waits says so, so who said nothing has not come; but only if most have spoken, and
        of every host somebody: else most of what was printed is not here.
        """
        came = tuple(sorted({*here}))
        everyone = set(self.of)
        is_told = 2 * len(came) > len(everyone) and len(came) > len(everyone) - self.due
        absent = (
            tuple(sorted(everyone - set(came))) if is_told and everyone.issuperset(came) else ()
        )
        return replace(self, ranks=absent, here=came)


@dataclass(frozen=True)
class RankRecord:
    """What one rank was seen doing.

    Attributes:
        rank: Global rank.
        actions: Observed actions in issue order.
        dropped: Older actions that its recorder no longer held.
        has_ended: True when the rank is known to have come to its end, False when an exception is
            known to have ended it, None when neither is known.
        stack: Its Python stack at the end, innermost frame first, libraries left out.
        inside: Name of the communication call that stack stands in, or None.
        file: Where it was read from.
        version: Version of the recorder or library, where it is known.
        crash: The error that ended the rank and is no consequence of others, or "".
        crash_doubt: Why it may have gone on behind that error, where another file lends it, or "".
        kind: Format it was read from.
        absences: What it says of others that did not come.
        oversized: Bytes that came and bytes that fit, where that ended the rank.
        has_moved: Two stacks of the rank show it in different places: it is not stuck.
        written_ns: When its file was written, by its file system.
        lent: Facts that files of another kind told, with that kind.
    """

    rank: int
    actions: Sequence[Observed] = ()
    dropped: int = 0
    has_ended: bool | None = None
    stack: tuple[Source, ...] = ()
    inside: str | None = None
    file: str | None = None
    version: str | None = None
    crash: str = ""
    crash_doubt: str = ""
    kind: str = ""
    absences: tuple[Absence, ...] = ()
    oversized: tuple[int, int] | None = None
    has_moved: bool = False
    written_ns: int | None = None
    lent: Mapping[Fact, str] = field(default_factory=dict)

    def told_by(self, fact: Fact) -> str:
        """Return the kind of file that a fact was read from."""
        return self.lent.get(fact, self.kind)

    @property
    def stands_unseen(self) -> bool:
        """True when only a stack tells of the rank, and it stands in a call: which one is open."""
        return self.inside is not None and not len(self.track)

    @cached_property
    def track(self) -> Track:
        """The actions as columns."""
        return Track.of(self.actions)

    @cached_property
    def pending(self) -> tuple[int, ...]:
        """Indices of the actions that were issued and not seen to complete."""
        open_states = (Progress.ISSUED, Progress.STARTED)
        return tuple(n for n, state in enumerate(self.track.progress) if state in open_states)


@dataclass(frozen=True)
class Recording:
    """What a run was seen doing.

    Attributes:
        world_size: Number of ranks of the run.
        ranks: Records by global rank; a rank without one has unknown progress.
        groups: Groups by name.
        gaps: What is missing.
        backend: ``gloo``, ``nccl``, ... or None when the calls name several or none.
        kinds: Formats it was read from.
        notes: What a reader had to assume, one sentence each.
    """

    world_size: int
    ranks: Mapping[int, RankRecord]
    groups: Mapping[str, RecordedGroup] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    backend: str | None = None
    kinds: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks of the run without a record."""
        return tuple(rank for rank in range(self.world_size) if rank not in self.ranks)

    @cached_property
    def actions(self) -> int:
        """Number of observed actions of all ranks."""
        return sum(len(record.actions) for record in self.ranks.values())

    @cached_property
    def hidden(self) -> int:
        """Number of calls that were counted and not recorded."""
        total = 0
        for track in (record.track for record in self.ranks.values()):
            places = {n for n, call in enumerate(track.calls) if call.op == UNRECORDED}
            if places:
                total += sum(call in places for call in track.call)
        return total

    @property
    def is_complete(self) -> bool:
        """True when nothing is known to be missing."""
        return not self.gaps

    def members(self, group: str | None) -> tuple[int, ...]:
        """Return the members of a group as far as they are known."""
        found = self.groups.get(group or WORLD)
        if found is None:
            return tuple(range(self.world_size)) if group in (None, WORLD) else ()
        return found.members

    def backend_of(self, group: str) -> str | None:
        """Return the backend of a group, or that of all calls, where one is known."""
        found = self.groups.get(group)
        return (found.backend if found is not None else None) or self.backend

    def location(self, rank: int, action: int) -> Location:
        """Return the place of an observed action as findings name it."""
        call = self.ranks[rank].track.call_at(action)
        return Location(
            rank=rank,
            action=action,
            source=call.source,
            text=clean(call.text()),
            op=clean(call.op),
        )

    def to_plan(self, *, blocking: bool = True, folded: bool = False) -> Plan:
        """Return the plan that every rank was seen following.

        Args:
            blocking: How calls are read of which the recording does not say whether the host
                waited for them: inside the call, or at the end of the rank.
            folded: Steps that repeat at the end of a rank's calls become a loop.

        Raises:
            PlanError: The recording has gaps; the message names them.
        """
        from planguard.recording.promote import promote

        return promote(self, blocking=blocking, folded=folded)
