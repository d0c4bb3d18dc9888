"""Which of several recordings of one rank is used: the kind that tells most, then the latest.

Dumps taken at two moments, of two attempts, or copied twice lie in one folder as often as not.
Their calls show which it is: a recorder writes the same time of one call into each dump, and calls
of one number and two times are of two runs. Where they show neither, the later one is used, it is
said which, and nothing is certain. Dumps of several backends are no such: they are joined.
"""

from __future__ import annotations

from collections import defaultdict
from operator import eq
from typing import TYPE_CHECKING

from planguard.audit.joining.backends import by_backend, joined
from planguard.audit.readers.part import DOUBT, MOMENT, PRIORITY, SILENT, UNREAD, Part
from planguard.errors import UsageError
from planguard.recording import Gap, Progress
from planguard.words import clean, name_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LATER = "of {} several dumps of one run are there: the latest of each is used, such as {}, not {}"
EARLIER = "of {} there are dumps of several runs: those of the last are used, such as {}, not {}"
ALIKE = "of {} one dump is there several times: {} is used, {} says the same"
ALONE = "of {} there is one dump, which may be of an earlier moment than the latest of others"
UNCLEAR = (
    "of {} several recordings are there, and nothing shows that they are of one run: the latest of "
    "each is used, such as {}, not {}"
)


def choose(parts: Sequence[Part]) -> tuple[dict[int, Part], list[Gap], list[str]]:
    """Return the part of every rank that is used; what that leaves in doubt; what is worth telling.

    A stack alone is a recording, too.

    Raises:
        UsageError: No recording at all.
    """
    of_rank: dict[int, list[Part]] = defaultdict(list)
    for part in parts:
        if part.rank is not None and part.kind not in (SILENT, UNREAD):
            of_rank[part.rank].append(part)
    if not of_rank:
        raise UsageError("no recording among the files", hint="one dump per rank")
    chosen: dict[int, Part] = {}
    said: dict[str, list[tuple[Part, Part]]] = defaultdict(list)
    for rank, own in of_rank.items():
        best = min(PRIORITY.index(part.kind) for part in own)
        same = [part for part in own if PRIORITY.index(part.kind) == best]
        lasts = []
        for alike in by_backend(same):
            last = alike[0] if len(alike) == 1 else max(alike, key=_moment)
            lasts.append(last)
            others = [part for part in alike if part is not last]
            if others:
                said[_relation(last, others)].append((last, others[0]))
        chosen[rank] = joined(lasts)
    told = {form: form.format(*_names(pairs)) for form, pairs in said.items()}
    unclear = tuple(last.rank or 0 for last, _ in said.get(UNCLEAR, ()))
    doubts = [Gap(DOUBT, told.pop(UNCLEAR), "PG904", unclear)] if unclear else []
    if LATER in told and (alone := _of_one_moment(chosen, said[LATER])):
        doubts.append(Gap(MOMENT, ALONE.format(name_ranks(alone)), "PG904", alone))
    return chosen, doubts, list(told.values())


def _of_one_moment(chosen: dict[int, Part], pairs: Sequence[tuple[Part, Part]]) -> tuple[int, ...]:
    """Return the ranks of which there is one dump, where others have later ones of the same run."""
    kinds = {last.kind for last, _ in pairs}
    several = {last.rank for last, _ in pairs}
    return tuple(r for r, part in chosen.items() if part.kind in kinds and r not in several)


def _names(pairs: Sequence[tuple[Part, Part]]) -> tuple[str, str, str]:
    last, other = pairs[0]
    ranks = sorted(one.rank or 0 for one, _ in pairs)
    return name_ranks(ranks), clean(last.file), clean(other.file)


def _moment(part: Part) -> tuple[int, int, bool, int]:
    """Order recordings of a rank: by their last call, what completed, call sites, and their files.

    Of two that hold the same calls the one with call sites tells more.
    """
    track = part.track
    has_sites = any(call.stack for call in track.calls)
    created = max(track.created, default=0)
    return created, track.progress.count(Progress.COMPLETED), has_sites, part.written_ns or 0


def _relation(last: Part, others: Sequence[Part]) -> str:
    """Return what can be said of a recording and of those that are not used."""
    if all(_holds(last, other) for other in others):
        return ALIKE
    found = {_shared(last, other) for other in others}
    return found.pop() if len(found) == 1 else UNCLEAR


def _holds(last: Part, other: Part) -> bool:
    return len(last.track) == len(other.track) and all(map(eq, _rows(last), _rows(other)))


def _rows(part: Part) -> Iterator[tuple[object, ...]]:
    track = part.track
    columns = track.position, track.progress, track.created, track.number
    for place, *row in zip(track.call, *columns, strict=True):
        yield track.calls[place].op, track.calls[place].group, *row


def _shared(last: Part, other: Part) -> str:
    """Return what the calls of one number say that two recordings hold."""
    mine, theirs = _times(last), _times(other)
    pairs = [(time, theirs[key]) for key, time in mine.items() if key in theirs]
    if any(one == two for one, two in pairs):
        return LATER
    return EARLIER if pairs and min(mine.values()) > max(theirs.values()) else UNCLEAR


def _times(part: Part) -> dict[tuple[str | None, str, int], int]:
    track = part.track
    return {
        (track.calls[call].group, track.calls[call].op, position): time
        for call, position, time in zip(track.call, track.position, track.created, strict=True)
        if time > 0
    }
