"""Dumps of several backends: each backend of a process has a Flight Recorder of its own.

torch keeps one for NCCL (``_dump_nccl_trace``) and one for gloo and others (``_dump_fr_trace``;
both in ``torch/csrc/distributed/c10d/init.cpp``, torch 2.13). What they hold of one rank are calls
of one process, by one clock. A group of two backends, such as ``cpu:gloo,cuda:nccl``, has one name
in both, and each backend counts its rounds by itself.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import merge
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING

from planguard.recording import Track

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.audit.readers.part import Part
    from planguard.recording import Observed


def tell_backends(parts: Sequence[Part]) -> None:
    """Give a group that was used on several backends a name for each: its rounds are two rows."""
    dumps = [part for part in parts if part.kind == "flight-recorder" and part.backend]
    if len({part.backend for part in dumps}) < 2:
        return
    used: dict[str, dict[str, list[Part]]] = defaultdict(lambda: defaultdict(list))
    for part in dumps:
        for name in {call.group for call in part.track.calls if call.group is not None}:
            used[name][part.backend or ""].append(part)
    for name, by_backend in used.items():
        if len(by_backend) < 2:
            continue
        members = next((g.ranks for p in dumps if (g := p.groups.get(name)) and g.ranks), None)
        # The recorder that names the members keeps the name, which gloo's does not.
        for backend in sorted(by_backend, key=lambda one: (one == "gloo", one))[1:]:
            own = f"{name}/{backend}"
            for part in by_backend[backend]:
                part.rename_group(name, own)
                part.groups[own].ranks = part.groups[own].ranks or members


def by_backend(dumps: Sequence[Part]) -> list[list[Part]]:
    """Return recordings of one rank by their backends; one without calls goes with the first."""
    kinds = {part.kind for part in dumps}
    backends = list(dict.fromkeys(part.backend for part in dumps if part.backend))
    if kinds != {"flight-recorder"} or len(backends) < 2:
        return [list(dumps)]
    first = backends[0]
    return [[part for part in dumps if (part.backend or first) == one] for one in backends]


def joined(dumps: Sequence[Part]) -> Part:
    """Return the first of some dumps of one rank, with what those of other backends say added."""
    first, *others = dumps
    if not others:
        return first
    rows = merge(*map(_timed, dumps), key=itemgetter(0))
    first.track = Track.of(one for _, one in rows)
    for other in others:
        first.add_groups(other)
        first.world_size = first.world_size or other.world_size
        first.library = first.library or other.library
        first.lost, first.doubt = first.lost or other.lost, first.doubt or other.doubt
        first.notes += [note for note in other.notes if note not in first.notes]
    first.dropped = sum(part.dropped for part in dumps)
    first.lacks = tuple(dict.fromkeys(chain.from_iterable(part.lacks for part in dumps)))
    # What the earlier of them does not hold may have come behind it.
    first.written_ns = min((p.written_ns for p in dumps if p.written_ns is not None), default=None)
    return first


def _timed(part: Part) -> Iterator[tuple[int, Observed]]:
    """Yield the actions of a dump with times that never go back: each keeps its own order."""
    return zip(accumulate(part.track.created, max), part.track, strict=True)
