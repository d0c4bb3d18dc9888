"""Who did not come to the creation of a communicator, from the logs of all processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.recording import Absence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.readers.part import Init, Part

UNENDED = "the log ends with {what}, to which all came; whether it ended is not logged"
"""Doubt of a creation of which only what follows shows that it ended."""


def join_inits(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with what the logs say of creations that did not end.

    A rank of which there is evidence and no beginning of it has not come. Of one that left nothing
    that is not known: its log may only be missing here. Where the log does not say it, the
    communicator of most ranks is taken for the default group, so that its places are ranks of the
    job; other places name nobody.
    """
    members: dict[str, dict[int, Init]] = {}
    for part in parts:
        for name, init in part.inits.items():
            members.setdefault(name, {})[init.place] = init
    if not members:
        return list(parts)
    world = max(members, key=lambda name: max(init.size for init in members[name].values()))
    seen = {part.rank for part in parts if part.rank is not None}
    said: dict[str, Absence] = {}
    for name, came in members.items():
        one = next(iter(came.values()))
        if any(init.is_done for init in came.values()):
            continue
        is_job = name == world if one.is_job is None else one.is_job
        absence = _absence(came, seen, is_world=is_job)
        if absence.all_came and one.ends_unseen:
            for part in parts:
                if name in part.inits:
                    part.doubt = part.doubt or UNENDED.format(what=absence.what)
            continue
        said[name] = absence
    return _lent(parts, said)


def _absence(came: dict[int, Init], seen: set[int], *, is_world: bool) -> Absence:
    """Return what is said of a creation that nobody came to the end of."""
    size = max(init.size for init in came.values())
    first = next(iter(came.values()))
    missing = tuple(place for place in range(min(size, 1_000_000)) if place not in came)
    known = tuple(place for place in missing if place in seen) if is_world else ()
    return Absence(
        first.what or f"the creation of a communicator of {size:,} ranks",
        known,
        tuple(sorted(came)),
        first.by,
        are_places=not is_world,
        all_came=not missing,
    )


def _lent(parts: Sequence[Part], said: dict[str, Absence]) -> list[Part]:
    """Return the parts, those that hold creations only made one with what else its rank left."""
    richest: dict[int, Part] = {}
    for part in parts:
        if part.rank is not None and (part.track.calls or not part.inits):
            richest.setdefault(part.rank, part)
    kept = []
    for part in parts:
        told = tuple(said[name] for name, init in part.inits.items() if name in said)
        if part.track.calls or not part.inits:
            part.absences = (*part.absences, *told)
            kept.append(part)
            continue
        other = None if part.rank is None else richest.get(part.rank)
        if other is not None:
            other.absences = (*other.absences, *told)
        elif part.rank is not None:
            part.kind = "stderr"  # it tells only of what it waited for
            part.absences = told
            richest[part.rank] = part
            kept.append(part)
    return kept
