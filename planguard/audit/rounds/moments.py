"""Which recordings end at an earlier moment than others, and what they can therefore not show.

That a rank has not come to a round follows from its recording only as of the moment at which that
was taken. Nothing in a dump says that moment, but other ranks do: who completed a collective that
needs everybody shows that all members called it. A recording without that call ends earlier, and
what its rank did next is not known. The times of files say the same, as long as nobody copied them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from planguard.audit.readers.part import PARTIAL
from planguard.plan.vocabulary import EVERYONE
from planguard.recording import UNNAMED, Progress
from planguard.words import clean, name_ranks, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from planguard.audit.rounds.channels import Channels
    from planguard.audit.rounds.rounds import Line, Rounds
    from planguard.audit.rounds.waits import Wait
    from planguard.recording import RankRecord

STOOD_NS = 3_000_000_000
"""A call is shown to stand if it did so for this long: writing a dump with its stacks takes that,
while the job goes on (measured on torch 2.13)."""
GAPS = 2
"""And for this many times the longest pause between two calls of the rank that it waits for."""
COPIED_NS = 86_400_000_000_000
"""A file that was written a day behind the last call of its rank was copied: time limits end."""
TRACES = ("kineto", "execution-trace", "chakra")
"""Kinds that end when somebody stops them."""
STATELESS = (*TRACES, "nccl-log", "clog")
"""Kinds that do not say which calls ended, ClogHook's where it logs no states."""
ONE_MOMENT = "take the dumps of all ranks at one moment, or when the job has come to its time limit"


class Earlier(NamedTuple):
    """A recording that ends before a call which its rank made for all that.

    Attributes:
        rank: Whose recording it is.
        group: The group of that call.
        end: The last round of that group in the recording.
        other: The rank that completed a round which needs this one.
        position: That round.
        op: Its operation.
    """

    rank: int
    group: str
    end: int
    other: int
    position: int
    op: str

    @property
    def has_come(self) -> bool:
        """True when the rank was seen coming to that round, and not leaving it."""
        return self.end >= self.position


def earlier(rounds: Rounds, channels: Channels) -> dict[int, Earlier]:
    """Return the ranks whose recordings end at an earlier moment than that of another one."""
    found = {one.rank: one for one in _unsent(rounds, channels)}
    for group, lines in rounds.lines.items():
        last = max(
            ((_completed(rounds, line), -rank) for rank, line in lines.items()),
            default=(0, 0),
        )
        position, other = last[0], -last[1]
        if not position:
            continue
        late = [rank for rank in rounds.members(group) if _is_before(rounds, group, rank, last)]
        if late and _first_difference(rounds, group) <= position:
            continue  # a wrong partner completes a call as well as the right one
        op = rounds.recording.location(other, lines[other].action(position)).op
        for rank in late:
            end = lines[rank].end if rank in lines else 0
            found.setdefault(rank, Earlier(rank, group, end, other, position, op))
    return found


def _unsent(rounds: Rounds, channels: Channels) -> Iterator[Earlier]:
    """Yield the senders of messages that came, where their recordings end before they sent them.

    A send may complete before it is received; a receive does not before it is sent.
    """
    ranks = rounds.recording.ranks
    for (group, source, target), channel in channels.channels.items():
        if source not in ranks or target not in ranks or source in rounds.unsaid:
            continue
        if ranks[source].kind in PARTIAL or ranks[source].dropped or ranks[target].dropped:
            continue
        states = ranks[target].track.progress
        came = [states[action] == Progress.COMPLETED for action in channel.recvs]
        if len(channel.sends) < len(came) and any(came[len(channel.sends) :]):
            last = max(place for place, is_here in enumerate(came, 1) if is_here)
            yield Earlier(source, group, len(channel.sends), target, last, "recv")


def _completed(rounds: Rounds, line: Line) -> int:
    """Return the last round of a rank that completed, and does so only when all have come.

    Logs count calls and do not name them: what they count is taken for such a one.
    """
    for place in range(len(line.progress) - 1, -1, -1):
        if line.progress[place] == Progress.COMPLETED and line.signs[place] >= 0:
            call = rounds.recording.ranks[line.rank].track.call_at(line.actions[place])
            if call.family in EVERYONE or call.op == UNNAMED:
                return line.first + place
    return 0


def _is_before(rounds: Rounds, group: str, rank: int, last: tuple[int, int]) -> bool:
    """Tell whether a member's recording ends before a round that another one completed."""
    position, other = last[0], -last[1]
    line, record = rounds.lines[group].get(rank), rounds.recording.ranks[rank]
    if rank == other or rank in rounds.unsaid or (line is None and record.kind in PARTIAL):
        return False
    if line is None or line.end < position:
        return True
    # It came to that round, and not to its end: no earlier one can be what it was left in.
    left = (at for own, at in rounds.waiting.get(rank, ()) if own == group)
    return any(at <= position for at in left) and record.kind not in PARTIAL


def _first_difference(rounds: Rounds, group: str) -> int:
    from planguard.audit.rounds.disagree import disagreements  # it asks for rounds itself

    own = [one.position for one in disagreements(rounds) if one.group == group]
    return min(own, default=1 << 62)


def told(found: Iterable[Earlier]) -> Iterator[str]:
    """Yield what recordings of different moments leave open, one sentence for each call."""
    calls: dict[tuple[int, str, int, str], list[Earlier]] = {}
    for one in found:
        calls.setdefault((one.other, one.group, one.position, one.op), []).append(one)
    for (other, group, position, op), own in calls.items():
        ends = sorted({one.end for one in own})
        last = f"#{ends[0]}" if len(ends) == 1 else f"#{ends[0]} to #{ends[-1]}"
        what = f"{clean(op)} #{position} on group {shown(group)}"
        yield (
            f"the recordings end at different moments: rank {other} completed {what}, which needs "
            f"{name_ranks(one.rank for one in own)}, of which it is recorded up to {last} only; "
            f"up to there they agree, and that anything is stuck is not shown; {ONE_MOMENT}"
        )


def doubtful(rounds: Rounds, waits: Sequence[Wait]) -> Iterator[tuple[int, str]]:
    """Yield the ranks that are waited for where they may still have come, and why that is so."""
    since: dict[int, Wait] = {}
    for wait in waits:
        if wait.owed is None and wait.target in rounds.recording.ranks:
            known = since.setdefault(wait.target, wait)
            if _created(rounds, wait) < _created(rounds, known):
                since[wait.target] = wait
    for rank, wait in since.items():
        said = (
            _stateless(rounds, rank, wait)
            or _too_soon(rounds, rank, wait)
            or _at_work(rounds, rank, wait)
            or _is_inside(rounds, rank, wait)
        )
        if said:
            yield rank, said


def _created(rounds: Rounds, wait: Wait) -> int:
    return rounds.recording.ranks[wait.rank].track.created[wait.action]


def _stateless(rounds: Rounds, rank: int, wait: Wait) -> str:
    """Return why recordings show nobody standing: one may only have been made for longer."""
    own, other = rounds.recording.ranks[wait.rank], rounds.recording.ranks[rank]
    is_silent = own.track.progress[wait.action] == Progress.UNKNOWN and own.kind in STATELESS
    if not is_silent and other.kind not in TRACES:
        return ""
    return (
        "the recordings do not say which calls ended, or end when somebody stopped them: that of "
        f"rank {rank} may only end earlier than that of rank {wait.rank}"
    )


def _stood(record: RankRecord, began: int) -> int | None:
    """Return for how long a call was made when a dump was written, None if it may be said to stand.

    Nor is anything said where the times of the file or of the call are not known.
    """
    if record.kind != "flight-recorder" or record.written_ns is None or began <= 0:
        return None
    times = sorted(time for time in record.track.created if time > 0)
    pauses = (after - before for before, after in pairwise(times))
    stood = record.written_ns - began
    return None if stood >= max(STOOD_NS, GAPS * max(pauses, default=0)) else stood


def lasted(record: RankRecord, action: int) -> int:
    """Return for how long a call was made when its dump was written, 0 where that is not known."""
    began = record.track.created[action]
    is_known = record.kind == "flight-recorder" and record.written_ns is not None and began > 0
    return max(0, (record.written_ns or 0) - began) if is_known else 0


def waited(rounds: Rounds, waits: Iterable[Wait]) -> int | None:
    """Return for how long the longest of some waits is known to stand; None: nothing says that.

    By the times of the files of both sides, as long as nobody copied them, and by later calls of
    the rank that waits, which its own clock times.
    """
    ranks, found = rounds.recording.ranks, 0
    for wait in waits:
        own, began = ranks[wait.rank], _created(rounds, wait)
        if began <= 0:
            continue
        files = [ranks[rank].written_ns for rank in (wait.rank, wait.target) if rank in ranks]
        known = [written - began for written in files if written is not None]
        known = [stood for stood in known if stood < COPIED_NS]
        found = max(found, max(own.track.created) - began, *known)
    return found if found >= STOOD_NS else None


def in_flight(rounds: Rounds, places: Sequence[tuple[int, int]]) -> float | None:
    """Return for how many seconds a round was made at most, if no longer than a job that runs is.

    Args:
        rounds: The rounds.
        places: Rank and action of the members that are in it.
    """
    records = [(rounds.recording.ranks[rank], action) for rank, action in places]
    known = [_stood(record, record.track.created[action]) for record, action in records]
    short = [stood for stood in known if stood is not None and stood >= 0]
    return max(short) / 1e9 if short and len(short) == len(known) else None


def _too_soon(rounds: Rounds, rank: int, wait: Wait) -> str:
    """Return why a dump may be too early to show that its rank did not come."""
    stood = _stood(rounds.recording.ranks[rank], _created(rounds, wait))
    if stood is None:
        return ""
    if stood < 0:
        return (
            f"the dump of rank {rank} was written {-stood / 1e9:,.1f} s before rank {wait.rank} "
            f"made the call in which it waits; {ONE_MOMENT}"
        )
    return (
        f"the dump of rank {rank} was written {stood / 1e9:,.1f} s after rank {wait.rank} made the "
        f"call in which it waits, which is no longer than between calls before; {ONE_MOMENT}"
    )


def _at_work(rounds: Rounds, rank: int, wait: Wait) -> str:
    """Return why a rank may still come: it made calls of other groups until its dump was written.

    Some ranks evaluate in a group of their own while the others wait, for as long as it takes.
    """
    record, began = rounds.recording.ranks[rank], _created(rounds, wait)
    last = max(record.track.created, default=0)
    if last <= began or record.pending or _stood(record, last) is None:
        return ""
    return (
        f"rank {rank} made calls of other groups behind that, and ended them, until its dump was "
        "written: it was at work, and may still come"
    )


def _is_inside(rounds: Rounds, rank: int, wait: Wait) -> str:
    """Return what a stack says against a recording: that its rank stands in the call it lacks."""
    record = rounds.recording.ranks[rank]
    call = rounds.recording.ranks[wait.rank].track.call_at(wait.action)
    if record.inside is None or record.inside not in (call.op, call.family):
        return ""
    if any(record.track.call_at(action).family == call.family for action in record.pending):
        return ""
    return (
        f"the stack of rank {rank} stands in {clean(record.inside)}, and its recording ends before "
        "such a call: they contradict each other, or are of different moments"
    )
