"""Rank selectors: ``3``, ``0-3``, ``0-15:4``, ``0,4,8``, and mesh coordinates ``pp=1-2,tp=0``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planguard.plan.groups import Mesh

_PART = re.compile(r"(\d{1,12})(?:-(\d{1,12})(?::(\d{1,12}))?)?\Z", re.ASCII)


class SelectorError(ValueError):
    """A selector that cannot be read; ``code`` is the finding code."""

    def __init__(self, message: str, code: str = "PG901") -> None:
        super().__init__(message)
        self.code = code


def parse(selector: str, world_size: int, mesh: Mesh | None) -> list[range]:
    """Return the selected ranks as ranges, in constant space per comma or mesh dimension.

    Raises:
        SelectorError: Not a selector, a rank outside the world, or a coordinate off the mesh.
    """
    if "=" in selector:
        return _mesh_ranges(selector, mesh)
    return [_interval(part, world_size, "rank", "PG402") for part in selector.split(",")]


def _interval(text: str, size: int, what: str, code: str) -> range:
    match = _PART.match(text.strip())
    if match is None:
        message = f"{text!r} is not a {what}, an interval a-b or a stepped interval a-b:step"
        raise SelectorError(message)
    first = int(match[1])
    last = first if match[2] is None else int(match[2])
    stride = 1 if match[3] is None else int(match[3])
    if last < first or stride < 1:
        raise SelectorError(f"the interval {text.strip()!r} is empty")
    if last >= size:
        raise SelectorError(f"{what} {last} is outside 0..{size - 1}", code)
    return range(first, last + 1, stride)


def _mesh_ranges(selector: str, mesh: Mesh | None) -> list[range]:
    if mesh is None:
        raise SelectorError("mesh coordinates need a mesh", "PG411")
    chosen: dict[int, range] = {}
    for part in selector.split(","):
        name, _, interval = part.partition("=")
        if name.strip() not in mesh.names:
            raise SelectorError(f"the mesh has no dimension {name.strip()!r}", "PG411")
        dim = mesh.names.index(name.strip())
        if dim in chosen:
            raise SelectorError(f"dimension {name.strip()!r} is given twice")
        chosen[dim] = _interval(interval, mesh.sizes[dim], "coordinate", "PG411")
    return _box(chosen, mesh)


def _box(chosen: dict[int, range], mesh: Mesh) -> list[range]:
    """Return a box of the mesh as few ranges, built from the innermost dimension outwards.

    As long as the selected ranks of a block are one arithmetic progression that the next block
    continues, the blocks of a whole interval stay one range: ``tp=0`` is one range on any mesh.
    """
    ranges, block = [range(1)], 1
    for dim in reversed(range(len(mesh.sizes))):
        places = chosen.get(dim, range(mesh.sizes[dim]))
        only = ranges[0]
        if len(ranges) == 1 and _is_periodic(only, block) and places.step == 1:
            start, stop = places.start * block + only.start, places.stop * block
            ranges = [range(start, stop, _period(only, block))]
        else:
            ranges = [
                range(k * block + r.start, k * block + r.stop, r.step)
                for k in places
                for r in ranges
            ]
        block *= mesh.sizes[dim]
    return ranges


def _period(ranks: range, block: int) -> int:
    return block if len(ranks) == 1 else ranks.step


def _is_periodic(ranks: range, block: int) -> bool:
    """Return whether the next block continues the progression of this one."""
    period = _period(ranks, block)
    return block % period == 0 and len(ranks) == block // period
