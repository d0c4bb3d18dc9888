"""Clocks of hosts that show other time zones: what they say of one another is no order in time.

Ranks call a collective within seconds of each other. Where one rank's times of all rounds that it
shares with another are off by the same whole number of half hours, its clock is, and not the rank:
an earlier run would have to begin on the second and to keep the pace, and it would end before
rounds that the others completed with this rank.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from planguard.plan.vocabulary import EVERYONE
from planguard.recording import Progress
from planguard.recording.track import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.readers.part import Part

HALF_HOUR_NS = 1_800_000_000_000
"""Offsets of time zones are whole numbers of it, but for few."""
NEAR_NS = 5_000_000_000
"""How far calls of one round lie apart at most, in nine of ten rounds."""
FEWEST = 3
"""Rounds in common that show an offset."""
SAMPLES = 256

Rounds = dict[tuple[str, int], int]


def apart(parts: Sequence[Part]) -> dict[int, int]:
    """Return the offset of every rank's clock that shows another zone than most, in half hours.

    Their times are taken out of the parts, those of their files as well: nobody was earlier or
    later by them.
    """
    dumps = [p for p in parts if p.kind == "flight-recorder" and p.rank is not None]
    if len({part.rank for part in dumps}) < len(dumps):
        return {}  # several dumps of one rank may be of several runs
    if _span(dumps) < HALF_HOUR_NS - NEAR_NS:
        return {}  # no two times of all are a zone apart
    times = {part.rank or 0: _rounds(part) for part in dumps}
    offsets = {min(times): 0} if times else {}
    for rank in sorted(times):
        if rank not in offsets and (off := _offset(times[rank], times[min(times)])) is not None:
            offsets[rank] = off
    zones = sorted(set(offsets.values()))
    if len(zones) < 2:
        return {}
    every = list(offsets.values())
    usual = max(zones, key=lambda zone: (every.count(zone), zone == 0))
    found = {rank: zone - usual for rank, zone in offsets.items() if zone != usual}
    if not _are_of_one_run([p for p in dumps if p.rank in offsets], found):
        return {}
    for part in dumps:
        if part.rank in found:
            part.track.created = array("q", [ABSENT]) * len(part.track)
            part.written_ns = None
    return found


def _span(dumps: Sequence[Part]) -> int:
    """Return how far the last times of all ranks lie apart."""
    ends: list[int] = []
    for part in dumps:
        last = part.track.created[-SAMPLES:].tolist()  # each of them is looked at twice
        known = last if min(last, default=0) > 0 else [time for time in last if time > 0]
        ends += (min(known), max(known)) if known else ()
    return max(ends, default=0) - min(ends, default=0)


def _rounds(part: Part) -> Rounds:
    """Return when the last rounds of a rank were called, by group and number."""
    track = part.track
    found: Rounds = {}
    for action in range(max(0, len(track) - SAMPLES), len(track)):
        call = track.calls[track.call[action]]
        if call.is_collective and track.created[action] > 0:
            found[call.group or "world", track.position[action]] = track.created[action]
    return found


def _offset(own: Rounds, other: Rounds) -> int | None:
    """Return by how many half hours one clock is ahead of another, None where nothing shows it."""
    differences = sorted(time - other[key] for key, time in own.items() if key in other)
    if len(differences) < FEWEST:
        return None
    halves = round(differences[len(differences) // 2] / HALF_HOUR_NS)
    near = sum(abs(one - halves * HALF_HOUR_NS) <= NEAR_NS for one in differences)
    return halves if 10 * near >= 9 * len(differences) else None


def _are_of_one_run(dumps: Sequence[Part], off: dict[int, int]) -> bool:
    """Tell whether no rank lacks a round that needs it and that one of another clock completed."""
    ends: dict[int, int] = {}
    done: dict[int, int] = {}
    for part in dumps:
        track = part.track
        for action, place in enumerate(track.call):
            call, rank = track.calls[place], part.rank or 0
            if call.is_collective and call.group == "world":
                ends[rank] = track.position[action]
                if call.family in EVERYONE and track.progress[action] == Progress.COMPLETED:
                    done[rank] = track.position[action]
    return all(
        end >= position
        for other, position in done.items()
        for rank, end in ends.items()
        if off.get(rank, 0) != off.get(other, 0)
    )
