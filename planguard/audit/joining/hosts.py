"""What the hosts of a job say of one rendezvous of threads: each knows its own ones only."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.readers.part import Part
    from planguard.recording import Absence


def join_hosts(parts: Sequence[Part]) -> None:
    """Put together who came to a rendezvous by the word of several hosts, in their parts."""
    said: dict[tuple[str, tuple[int, ...]], list[Absence]] = defaultdict(list)
    for part in parts:
        for one in part.absences:
            if one.of:
                said[one.what, one.of].append(one)
    for part in parts:
        part.absences = tuple(
            _joined(said[one.what, one.of]) if one.of else one for one in part.absences
        )


def _joined(said: Sequence[Absence]) -> Absence:
    one = replace(
        said[0],
        all_came=all(other.all_came for other in said),
        went_on=any(other.went_on for other in said),
    )
    return one.with_here(place for other in said for place in other.here)
