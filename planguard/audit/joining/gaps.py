"""What is missing from a recording, and what had to be assumed to read it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from planguard.audit.readers.part import (
    DOUBT,
    LOST_END,
    PARTIAL,
    STATES,
    TIMED_OUT,
    UNSAID,
    Part,
)
from planguard.recording import Gap, Progress, Recording
from planguard.words import clean, name_ranks, plural, rank_set, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


OVER = "the last start of the job came to its end: what is told is of an earlier one"
MAX_LISTED = 12
_OPEN = (Progress.ISSUED, Progress.STARTED)
COUNTED = ("stderr",)
"""Kinds that count the calls of a rank by the numbers that its dump has."""


def gaps(recording: Recording, chosen: dict[int, Part]) -> Iterable[Gap]:
    """Yield what the chosen parts leave out: ranks, calls, members of groups."""
    missing = recording.missing
    if missing:
        yield Gap(
            "missing-rank",
            f"no dump from {name_ranks(missing)}",
            "PG911",
            missing,
            len(missing),
        )
    cut = {rank: part.dropped for rank, part in chosen.items() if part.dropped}
    if cut:
        most = max(cut.values())
        yield Gap(
            "truncated-ring",
            f"ring buffer wrapped on {_some(cut)}: up to {plural(most, 'operation')} not covered",
            "PG912",
            tuple(sorted(cut)),
            sum(cut.values()),
        )
    yield from _limits(chosen)
    for rank, part in chosen.items():
        if part.lost:
            yield Gap(LOST_END, part.lost, "PG912", (rank,))
    unsaid = tuple(rank for rank in chosen if f"{UNSAID}{rank}" in recording.groups)
    if unsaid:
        message = f"the calls of {name_ranks(unsaid)} do not say their groups"
        yield Gap("unresolved-group", message, "PG914", unsaid)
    for group in recording.groups.values():
        if group.ranks is not None or group.name.startswith(UNSAID):
            continue
        yield Gap(
            "unresolved-group",
            f"members of group {shown(group.name)} are not recorded; seen: {rank_set(group.seen)}",
            "PG914",
            group.seen,
        )
    silent = tuple(sorted(r for r, p in chosen.items() if "point-to-point" in p.lacks))
    if silent:
        counted = f": {plural(recording.hidden, 'call')} counted only" if recording.hidden else ""
        yield Gap(
            "unrecorded-calls",
            f"{recording.backend or 'the recorder'} writes no sends and receives down{counted}; "
            "a rank may stand in one",
            "PG904",
            silent,
            recording.hidden or None,
        )


def against(parts: Sequence[Part], chosen: dict[int, Part]) -> Iterable[Gap]:
    """Yield the ranks whose logs name calls that failed, where another record of them counts.

    A finished recording beside such a log is of another moment, or does not hold everything.
    """
    ranks = tuple(
        sorted(
            part.rank
            for part in parts
            if part.rank is not None
            and part.kind == "stderr"
            and chosen.get(part.rank) is not part
            and (part.inside or part.absences or part.oversized or _is_open(part))
        )
    )
    if ranks:
        said = f"logs of {name_ranks(ranks)} tell of calls that failed, beside other recordings"
        yield Gap(TIMED_OUT, said, "PG904", ranks)
    yield from _contradictions(parts, chosen)


def of_starts(parts: Sequence[Part]) -> Iterable[Gap]:
    """Yield the doubt that a later start leaves which came to its end: nothing is stuck then."""
    if any(part.is_over for part in parts):
        yield Gap(DOUBT, OVER, "PG904")


def _contradictions(parts: Sequence[Part], chosen: dict[int, Part]) -> Iterable[Gap]:
    """Yield the ranks of which two kinds of files tell what cannot be true at one moment.

    A call that one of them says is open has completed by the other, or one of them ends before a
    call that the other one has seen issued. Which is the later one is not known, nor whether both
    are of one run: nothing is certain then.
    """
    for part in parts:
        other = chosen.get(part.rank) if part.rank is not None else None
        if other is None or other is part or part.kind not in COUNTED or other.kind in COUNTED:
            continue
        said = _contradiction(part, other)
        if said:
            yield Gap(DOUBT, said, "PG904", (part.rank or 0,))


def _contradiction(log: Part, dump: Part) -> str:
    """Return how a log and a better recording of its rank contradict each other, or ""."""
    seen, counted = _ends(dump), _ends(log)
    for group, (last, held) in counted.items():
        if group not in seen:
            continue
        end, stands = seen[group]
        who = f"of rank {log.rank} its log and its dump contradict each other on group "
        if held and stands != held and end >= held:
            now = f"#{stands} is" if stands else "nothing is"
            return f"{who}{shown(group)}: #{held} did not complete, against {now} open"
        if held > end or (not held and last != end):
            return f"{who}{shown(group)}: its last call is #{last}, against #{end}"
    return ""


def _ends(part: Part) -> dict[str, tuple[int, int]]:
    """Return the last round of each group, and the first that did not complete, 0 for none."""
    found: dict[str, tuple[int, int]] = {}
    track = part.track
    for place, position, state in zip(track.call, track.position, track.progress, strict=True):
        call = track.calls[place]
        if call.is_collective:
            last, held = found.get(call.group or "world", (0, 0))
            if not held and state in _OPEN:
                held = position
            found[call.group or "world"] = max(last, position), held
    return found


def _is_open(part: Part) -> bool:
    return any(state in _OPEN for state in part.track.progress)


def unread_files(unread: Sequence[Part]) -> Iterable[Gap]:
    """Yield the files that could not be read: what they would have said is missing."""
    for part in unread:
        if not is_empty(part):
            ranks = () if part.rank is None else (part.rank,)
            yield Gap("unread", why_unread(part), "PG911", ranks)


def is_empty(part: Part) -> bool:
    """Tell whether a file was understood and holds nothing of use: then nothing is lost."""
    return part.error is not None and part.error.code == "PG910"


def left_out(unread: Sequence[Part]) -> list[str]:
    """Return which files were not understood and lose nothing, with how they begin."""
    empty = [why_unread(part) for part in unread if is_empty(part)]
    more = len(empty) - MAX_LISTED
    return empty[:MAX_LISTED] + ([f"and {plural(more, 'other file')} likewise"] if more > 0 else [])


def why_unread(part: Part) -> str:
    """Return which file was left out, and why."""
    error = part.error
    if error is None:
        return f"{clean(part.file)} is left out"
    code = "" if error.code == "PG910" else f" ({error.code})"
    begins = f"; it begins: {part.begins}" if part.begins else ""
    return f"{clean(part.file)} is left out{code}: {clean(error.message)}{begins}"


def _limits(chosen: dict[int, Part]) -> Iterable[Gap]:
    """Yield what kinds of files cannot tell, and what had to be assumed to read them."""
    for kind, said in PARTIAL.items():
        ranks = tuple(rank for rank, part in chosen.items() if part.kind == kind)
        if ranks:
            yield Gap("partial", said, "PG904", ranks)
    stateless = tuple(rank for rank, part in chosen.items() if STATES in part.lacks)
    if stateless:
        said = f"the log of {name_ranks(stateless)} says which calls were made, and not that any "
        yield Gap("partial", f"{said}came to its end", "PG904", stateless)
    doubts: dict[str, list[int]] = defaultdict(list)
    for rank, part in chosen.items():
        if part.doubt:
            doubts[part.doubt].append(rank)
    for said, who in doubts.items():
        yield Gap(DOUBT, said, "PG904", tuple(who))
    unseen: dict[str, list[int]] = defaultdict(list)
    for rank, part in chosen.items():
        for said in part.unseen:
            unseen[said].append(rank)
    for said, who in unseen.items():  # it mends no call, and leaves open whether all is well
        yield Gap("partial", said, "PG904", tuple(who))


def _some(ranks: Iterable[int]) -> str:
    known = sorted(ranks)
    return name_ranks(known) if len(known) <= 6 else plural(len(known), "rank")


def troubles_of(parts: Sequence[Part], chosen: dict[int, Part]) -> Iterator[str]:
    """Yield what parts tell of trouble that what was chosen of their ranks may not show."""
    for part in parts:
        if part.is_over or part.start:
            continue
        if part.trouble:
            yield part.trouble
        if part.rank is None or chosen.get(part.rank) is part:
            continue
        if part.kind == "ras" and len(part.track):
            yield f"{clean(part.file)} reports ranks that differ, which their dumps do not show"
        elif part.kind == "stderr" and {Progress.ISSUED, Progress.STARTED} & set(
            part.track.progress
        ):
            yield (
                f"{clean(part.file)} tells of a call of {name_ranks([part.rank])} that did not "
                "end, which its dump does not show"
            )
