"""Programs that all devices run alike, on groups that are families of one mesh: one walk for all.

The walk of one device differs from that of another where it asks which device it is (its partition
id, whom it permutes with), and in the groups of its collectives. Where it never asks, and each set
of replica groups is what varies along some dimensions of one mesh, the plan is one program for all
ranks, however many there are::

    8 devices, [4,2]<=[8] and [2,4]<=[4,2]T(1,0):   mesh axis_0=4 x axis_1=2
    {0,1},{2,3},..  varies along axis_1             {0,2,4,6},{1,3,5,7}  along axis_0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING

from .labels import leaves
from .overlap import overlaps
from .reach import Reach
from .steps import Collective, Trace
from .walk import Walker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .collectives import Translator
    from .options import XlaOptions
    from .programs import Program

MANY = 64
"""Devices from which on it is looked for; smaller plans list every rank with its groups."""


@dataclass(frozen=True)
class Alike:
    """What every device does.

    Attributes:
        trace: The steps of device 0.
        mesh: Names and sizes of the dimensions, outermost first.
        families: For each group of device 0, the dimensions that vary in it.
    """

    trace: Trace
    mesh: tuple[tuple[str, int], ...]
    families: Mapping[tuple[int, ...], tuple[str, ...]]


def alike(programs: Sequence[Program], options: XlaOptions, translator: Translator) -> Alike | None:
    """Return what all devices of a job do, None where they do not do the same or are few.

    Args:
        programs: The programs of the job; only one can be one for all.
        options: Options of the adapter.
        translator: That of the first program, which keeps the groups that it has read.

    Raises:
        PlanError: A communicating instruction is malformed.
    """
    if len(programs) != 1 or options.cliques != "none":
        return None
    program = programs[0]
    world = len(program.devices)
    everyone = tuple(range(world))
    if world < MANY or program.devices != everyone or program.ranks != everyone:
        return None
    walker = Walker(translator, Reach(program.module, options), options, 0)
    trace = walker.run()
    steps = list(leaves(trace.steps))
    if walker.asked or overlaps(trace.steps):
        return None
    if not all(isinstance(step, Collective) and step.root is None for step in steps):
        return None
    partitions = translator.partitions()
    mesh = mesh_of([groups[0] for groups in partitions], world)
    if mesh is None:
        return None
    families = {}
    for groups in partitions:
        dims = _varying(mesh, groups[0])
        if not _is_family(mesh, groups, dims):
            return None
        families[groups[0]] = tuple(mesh[at][0] for at in dims)
    return Alike(trace, mesh, families)


def mesh_of(groups: Iterable[tuple[int, ...]], world: int) -> tuple[tuple[str, int], ...] | None:
    """Return a mesh of which each group of device 0 is a family, None where there is none.

    A group that counts up in steps, and those in wider steps, cuts the devices where its steps
    begin and end; the dimensions are what lies between two cuts.
    """
    cuts = {1, world}
    for group in groups:
        found = _steps(group)
        if found is None:
            return None
        for stride, size in found:
            cuts |= {stride, stride * size}
    ordered = sorted(cuts)
    if any(wide % narrow for narrow, wide in pairwise(ordered)):
        return None
    sizes = [wide // narrow for narrow, wide in pairwise(ordered)][::-1]
    return tuple((f"axis_{at}", size) for at, size in enumerate(sizes))


def _steps(group: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """Return strides and sizes, innermost first, of a group that counts up in them from 0."""
    found: list[tuple[int, int]] = []
    if group[:1] != (0,):
        return None
    done = 1
    while done < len(group):
        stride, size = group[done], 1
        while done * size < len(group) and group[done * size] == stride * size:
            size += 1
        if stride <= 0 or len(group) % (done * size):
            return None
        found.append((stride, size))
        done *= size
    return found


def _strides(mesh: tuple[tuple[str, int], ...]) -> list[int]:
    return [math.prod(size for _, size in mesh[at + 1 :]) for at in range(len(mesh))]


def _varying(mesh: tuple[tuple[str, int], ...], group: tuple[int, ...]) -> list[int]:
    """Return the dimensions that vary in a group."""
    return [
        at
        for at, (stride, (_, size)) in enumerate(zip(_strides(mesh), mesh, strict=True))
        if len({rank // stride % size for rank in group}) > 1
    ]


def _is_family(
    mesh: tuple[tuple[str, int], ...], groups: Sequence[tuple[int, ...]], dims: Sequence[int]
) -> bool:
    """Tell whether groups are what varies along some dimensions, each in the mesh's order."""
    strides = _strides(mesh)
    ranges = [range(0, strides[at] * mesh[at][1], strides[at]) for at in dims]
    offsets = [sum(steps) for steps in product(*ranges)]
    return all(group == tuple(group[0] + offset for offset in offsets) for group in groups)
