"""Which recordings are of one run: dumps of an earlier one may lie beside those of the last.

Ranks of one run meet in every round that needs all of them. Where a rank came to a round after
another one had finished all that it recorded, that round and later ones among it, the two are of
different runs, whose numbers began anew, or one of their clocks is off by as much. Either way
nothing of the one follows for the other. The last run is audited.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.audit.readers.part import DOUBT
from planguard.plan.vocabulary import EVERYONE
from planguard.recording import Gap, Progress
from planguard.words import clean, name_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.readers.part import Part

_YEAR = 366
APART_NS = 1_000_000_000
"""Least time between two runs; clocks of machines that keep them together differ by less."""
SURE = 3
"""Rounds that a rank would have to be late for in a row. For fewer, the calls of the others may
have been queued before it came to the first: then nothing is certain, and nothing left out."""

LEFT_OUT = (
    "the dumps of {} end {} before the others begin, with rounds that come again in those: they "
    "are of an earlier run, or of ranks whose clocks are off, and are left out; audit each run by "
    "itself"
)

OLD_LOG = "the logs of {} are of an earlier run than those of others, and are left out"
SEVERAL_LOGS = (
    "the logs of {} have no communicator of all ranks in common: they may be of several runs"
)
TEXTS = ("stderr", "stacks", "ras")
EARLIER_TEXT = (
    "{} was written before the first call that the dumps hold: it is of an earlier run or moment, "
    "and is left out"
)


@dataclass
class _Span:
    """When the calls of one dump were made, and which rounds they are.

    Attributes:
        part: The dump.
        start: When the first call was made.
        end: When the last call was made.
        first: First recorded round, by group.
        done: Last round that completed and needs everybody, by group.
    """

    part: Part
    start: int
    end: int
    first: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)


def of_last_run(parts: Sequence[Part]) -> tuple[list[Part], list[Gap]]:
    """Return the parts without those of runs that a file shows to be earlier, and what is lost.

    Where parts of several runs are left, nothing shows which is the last one.
    """
    before = {run for part in parts for run in part.runs_before}
    kept = [part for part in parts if part.run not in before]
    there = {part.rank for part in kept}
    lost = sorted({p.rank for p in parts if p.run in before and p.rank is not None} - there)
    gaps = [Gap("unread", OLD_LOG.format(name_ranks(lost)), "PG911", tuple(lost))] if lost else []
    runs: dict[str, list[int]] = {}
    for part in kept:
        if part.run and part.rank is not None:
            runs.setdefault(part.run, []).append(part.rank)
    if len(runs) > 1:
        told = " and ".join(name_ranks(ranks) for ranks in list(runs.values())[:3])
        ranks = tuple(sorted(rank for own in runs.values() for rank in own))
        gaps.append(Gap(DOUBT, SEVERAL_LOGS.format(told), "PG904", ranks))
    return kept, gaps


def last_run(parts: Sequence[Part]) -> tuple[list[Part], list[Gap], list[str]]:
    """Return the parts without dumps of earlier runs, what is lost or in doubt, and what is not.

    Dumps of an earlier run are no loss where each of their ranks left one of the last run, too.
    """
    parts, doubts = _after_files(parts)
    doubts += [*_other_worlds(parts), *_other_days(parts)]
    spans = sorted(_spans(parts), key=lambda span: span.start)
    ends: list[int] = []
    for span in spans:
        ends.append(max(span.end, ends[-1] if ends else span.end))
    for cut in range(len(spans) - 1, 0, -1):
        if spans[cut].start - ends[cut - 1] <= APART_NS:
            continue
        ago = _duration(spans[cut].start - ends[cut - 1])
        old, new = spans[:cut], spans[cut:]
        ranks = tuple(sorted({span.part.rank or 0 for span in old}))
        repeated = max(_repeated(one, other) for one in old for other in new)
        if repeated >= SURE:
            gone = {id(span.part) for span in old}
            kept = [part for part in parts if id(part) not in gone]
            said = LEFT_OUT.format(name_ranks(ranks), ago)
            lost = set(ranks) - {span.part.rank for span in new}
            if not lost:  # the last run is there as a whole
                return kept, doubts, [said]
            return kept, [*doubts, Gap("unread", said, "PG911", tuple(sorted(lost)))], []
        if repeated:
            said = f"dumps of {name_ranks(ranks)} end {ago} before others begin"
            doubts.append(Gap(DOUBT, f"{said}: they may be of another run", "PG904", ranks))
    return list(parts), doubts, []


def _after_files(parts: Sequence[Part]) -> tuple[list[Part], list[Gap]]:
    """Leave out texts that were written before the first call that any dump holds.

    What a rank printed or where it stood then says nothing of the end of those calls. A dump whose
    file is older than its last call was written by another clock than the calls: it says nothing.
    """
    starts = [
        p.track.created[0]
        for p in parts
        if p.kind == "flight-recorder"
        and len(p.track)
        and (p.written_ns is None or p.written_ns >= p.track.created[-1])
    ]
    begin = min((start for start in starts if start > 0), default=0)
    old = [
        part
        for part in parts
        if part.kind in TEXTS and 0 < (part.written_ns or 0) < begin - APART_NS
    ]
    gaps = [
        Gap("unread", EARLIER_TEXT.format(clean(file)), "PG911")
        for file in dict.fromkeys(part.file for part in old)
    ]
    return [part for part in parts if not any(part is one for one in old)], gaps


def _other_worlds(parts: Sequence[Part]) -> list[Gap]:
    """Return a doubt where dumps list other members of the default group: of which job is each?"""
    worlds: dict[tuple[int, ...], list[int]] = {}
    for part in parts:
        world = part.groups.get("world")
        if part.kind == "flight-recorder" and part.rank is not None and world and world.ranks:
            worlds.setdefault(world.ranks, []).append(part.rank)
    if len(worlds) < 2:
        return []
    told = ", ".join(
        f"{name_ranks(world)} in the dumps of {name_ranks(ranks)}"
        for world, ranks in list(worlds.items())[:3]
    )
    said = f"the default group is {told}: these are dumps of several jobs; audit each by itself"
    return [
        Gap(DOUBT, said, "PG904", tuple(sorted(rank for own in worlds.values() for rank in own)))
    ]


def _other_days(parts: Sequence[Part]) -> list[Gap]:
    """Return a doubt where the watchdogs of ranks spoke days apart; a job may run past midnight."""
    days: dict[str, set[int]] = {}
    for part in parts:
        if part.day and part.rank is not None:
            days.setdefault(part.day, set()).add(part.rank)
    told = sorted((_number_of_day(day), name_ranks(sorted(ranks))) for day, ranks in days.items())
    around = [*(number for number, _ in told), told[0][0] + _YEAR] if told else []
    if sum(later - one > 1 for one, later in itertools.pairwise(around)) < 2:
        return []
    said = ", ".join(f"{who} on {day[:2]}/{day[2:]}" for day, who in _shown(days))
    ranks = tuple(sorted(set().union(*days.values())))
    said = f"the watchdogs spoke days apart ({said}): they may be of several runs"
    return [Gap(DOUBT, said, "PG904", ranks)]


def _shown(days: dict[str, set[int]]) -> list[tuple[str, str]]:
    return [(day, name_ranks(sorted(ranks))) for day, ranks in sorted(days.items())[:3]]


def _number_of_day(day: str) -> int:
    """Return the number of a day in a leap year: nothing says which year it is."""
    month, number = int(day[:2]), int(day[2:])
    lengths = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    return sum(lengths[: max(month - 1, 0)]) + number


def _spans(parts: Sequence[Part]) -> list[_Span]:
    found = []
    for part in parts:
        track = part.track
        if part.kind != "flight-recorder" or part.rank is None or not len(track):
            continue
        if track.created[0] <= 0 or track.created[-1] <= 0:
            continue
        found.append(_Span(part, track.created[0], max(track.created[0], track.created[-1])))
    if len(found) > 1 and max(s.start for s in found) - min(s.end for s in found) > APART_NS:
        for span in found:
            _rounds(span)
        return found
    return []


def _rounds(span: _Span) -> None:
    track = span.part.track
    for action, place in enumerate(track.call):
        call = track.calls[place]
        if not call.is_collective:
            continue
        group, position = call.group or "world", track.position[action]
        span.first.setdefault(group, position)
        if call.family in EVERYONE and track.progress[action] == Progress.COMPLETED:
            span.done[group] = position


def _repeated(old: _Span, new: _Span) -> int:
    """Return how many rounds that one dump shows completed were made later by another rank."""
    return max(
        (old.done[group] - first + 1 for group, first in new.first.items() if group in old.done),
        default=0,
    )


def _duration(nanoseconds: int) -> str:
    seconds = nanoseconds // 1_000_000_000
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h {seconds // 60 % 60} min"
