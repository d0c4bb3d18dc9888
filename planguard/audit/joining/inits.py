"""Who did not come to the creation of a communicator, from the logs of all processes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.recording import Absence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    ranks: dict[str, dict[int, int]] = defaultdict(dict)
    for part in parts:
        for name, init in part.inits.items():
            if part.rank is not None:
                ranks[name][init.place] = part.rank
    said: dict[str, Absence] = {}
    for name, came in members.items():
        one = next(iter(came.values()))
        if any(init.is_done for init in came.values()):
            continue
        is_job = name == world if one.is_job is None else one.is_job
        absence = _absence(came, seen, is_world=is_job)
        if not is_job and not absence.all_came:
            absence = _of_split(absence, name, world, members, ranks) or absence
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


def _of_split(
    absence: Absence,
    name: str,
    world: str,
    members: Mapping[str, Mapping[int, Init]],
    ranks: Mapping[str, Mapping[int, int]],
) -> Absence | None:
    """Return who did not come to a part of the default group, by who came to its other parts.

    Every member of the parent takes part in a split and ends in one of its parts, or in none (NCCL
    ``src/init.cc``: ``commGetSplitInfo``). Where the parts take all of the parent, and one alone
    lacks somebody, it lacks whoever came to none.
    """
    split, _, color = name.rpartition(":")
    parent = split.rpartition("/")[0]
    if not color or parent != world:
        return None
    whole = ranks[parent]
    size = max(init.size for init in members[parent].values())
    parts = {other: came for other, came in members.items() if other.rpartition(":")[0] == split}
    sizes = {other: max(init.size for init in came.values()) for other, came in parts.items()}
    lacking = [other for other, came in parts.items() if len(came) < sizes[other]]
    came_to_any = {rank for other in parts for rank in ranks[other].values()}
    absent = tuple(sorted(set(whole.values()) - came_to_any))
    is_told = len(whole) == size == sum(sizes.values()) and lacking == [name]
    if not is_told or len(absent) != sizes[name] - len(parts[name]):
        return None
    what = f"the creation of a communicator of {sizes[name]:,} ranks, a part of the default group"
    here = tuple(sorted(ranks[name].values()))
    return replace(absence, what=what, ranks=absent, here=here, are_places=False)


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
