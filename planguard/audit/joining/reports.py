"""Reports of RAS in several files: what went on between them was not stuck."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from planguard.recording import Track

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.readers.part import Part


def join_reports(parts: Sequence[Part]) -> None:
    """Leave out what reports say of communicators that made progress behind them.

    Files do not say when they were made, but counts only grow: of two files the one with the larger
    counts is the later. Where two files have the latest counts of those behind, these stand.
    """
    reports = [part for part in parts if part.kind == "ras" and part.rank is not None]
    if not reports:
        return
    from planguard.audit.readers.ras import moved  # where there are reports

    files: dict[str, dict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for part in reports:
        for call, count in zip(part.track.call, part.track.position, strict=True):
            own = files[part.track.calls[call].group or ""][part.file]
            own[part.rank or 0] = count
    gone: dict[str, set[str]] = defaultdict(set)
    for group, told in files.items():
        ordered = sorted(told.items(), key=lambda one: min(one[1].values()))
        if len(ordered) < 2:
            continue
        (_, last), (_, before) = ordered[-1], ordered[-2]
        said = moved(last, before, group)
        stands = {file for file, counts in ordered if min(counts.values()) == min(last.values())}
        for file, _ in ordered:
            if said or file not in stands:
                gone[file].add(group)
        if said:
            reports[0].notes.append(said)
    for part in reports:
        if gone.get(part.file):
            part.track = Track.of(
                one for one in part.track if one.call.group not in gone[part.file]
            )
