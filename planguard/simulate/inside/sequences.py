"""Works of a device that operators of the host launch again and again in one order.

As in HolisticTraceAnalysis (``get_frequent_cuda_kernel_sequences``), a sequence is an operator and
the works that it and what it calls launched, in the order in which they ran.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from planguard.simulate.inside.tracks import Tracks

SHORTEST = 3
"""Least works of a sequence."""


class Sequence(NamedTuple):
    """An operator and the works that it launches.

    Attributes:
        operator: Name of the operator.
        works: Names of the works, in their order.
        places: Places of the operator's slices.
        device: Microseconds of the works, of all of them together.
        host: Microseconds of the operator.
    """

    operator: str
    works: tuple[str, ...]
    places: tuple[int, ...]
    device: float
    host: float


def sequences(tracks: Tracks, operator: str | None = None) -> list[Sequence]:
    """Return the sequences, the most frequent first.

    Args:
        tracks: The inside of a rank.
        operator: A part of the names to look at, where only the outermost operators count that
            have it; None: all operators, of which one that launches no more than one inside it
            is left out.
    """
    launched = _launched(tracks)
    found: dict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(list)
    for at in _looked_at(tracks, launched, operator):
        one = tracks.slices[at]
        works = tuple(tracks.slices[work].name for work in launched[at])
        found[one.name, works].append(at)
    out = [
        Sequence(
            name,
            works,
            tuple(places),
            sum(_length(tracks, work) for place in places for work in launched[place]),
            sum(_length(tracks, place) for place in places),
        )
        for (name, works), places in found.items()
    ]
    return sorted(out, key=lambda one: (-len(one.places), -one.device, one.operator, one.works))


def _length(tracks: Tracks, at: int) -> float:
    return tracks.slices[at].end - tracks.slices[at].start


def _launched(tracks: Tracks) -> dict[int, list[int]]:
    """Return the works below every slice of the host, in the order in which they ran."""
    out: dict[int, list[int]] = defaultdict(list)
    for work, call in sorted(tracks.launches.items()):
        if tracks.slices[work].kind == "sync":
            continue
        above: int | None = call
        while above is not None:
            out[above].append(work)
            above = tracks.parents[above]
    return out


def _looked_at(tracks: Tracks, launched: dict[int, list[int]], operator: str | None) -> list[int]:
    long = [
        at
        for at in sorted(launched)
        if tracks.slices[at].kind == "operator" and len(launched[at]) >= SHORTEST
    ]
    if operator is not None:
        named = [at for at, one in enumerate(tracks.slices) if operator in one.name]
        least = min((tracks.depths[at] for at in named), default=0)
        return [at for at in long if operator in tracks.slices[at].name
                and tracks.depths[at] == least]  # fmt: skip
    same = {
        parent
        for at in long
        if (parent := tracks.parents[at]) is not None and launched[parent] == launched[at]
    }
    return [at for at in long if at not in same]
