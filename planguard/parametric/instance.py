"""One instance of a mesh template: the same text at other sizes of its replicated dimensions."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from planguard.arguments import MAPPING, PLAN, arguments
from planguard.errors import UsageError
from planguard.plan.compiling.compile import Compiled
from planguard.plan.document import MeshSpec
from planguard.plan.groups import Mesh, ProcessGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.plan.code import CompiledPlan
    from planguard.plan.plan import Plan


@arguments(plan=PLAN, sizes=MAPPING)
def instance(plan: Plan, sizes: Mapping[str, int]) -> Plan:
    """Return a plan with other sizes of replicated dimensions.

    Every rank runs the program of the ranks with its coordinates along the other dimensions. What
    the plan says of single ranks (its text, its topology) stays that of the original.

    Args:
        plan: A plan with a mesh.
        sizes: New size by name of the dimension; the others keep theirs.

    Raises:
        UsageError: There is no such dimension, or a size below 1.
    """
    mesh = plan.mesh
    if mesh is None or not sizes.keys() <= set(mesh.names) or min(sizes.values(), default=1) < 1:
        known = "no mesh" if mesh is None else ", ".join(mesh.names)
        raise UsageError(f"no such dimension or size: {dict(sizes)}", hint=f"the plan has {known}")
    lengths = [sizes.get(name, size) for name, size in zip(mesh.names, mesh.sizes, strict=True)]
    dims = list(zip(mesh.names, lengths, strict=True))
    small = Mesh.of(dims)
    code = _code(plan.code, mesh, small)
    groups = tuple(_group(group, code.world_size) for group in plan.groups)
    document = msgspec.structs.replace(
        plan.document,
        world_size=code.world_size,
        name=_name(plan, sizes),
        mesh=MeshSpec(dims=dims),
    )
    ranges: tuple[tuple[range, ...], ...] = tuple(() for _ in code.programs)
    return replace(plan, document=document, compiled=Compiled(code, small, groups, ranges))


def _name(plan: Plan, sizes: Mapping[str, int]) -> str:
    text = ", ".join(f"{name}={size}" for name, size in sizes.items())
    return f"{plan.name or plan.file or 'plan'} [{text}]"


def _group(group: ProcessGroup, world_size: int) -> ProcessGroup:
    """Return a group of the smaller world; one that lists its ranks is used by no program."""
    if group.is_family:
        return group
    ranks = range(world_size) if group.name == "world" else (0,)
    return msgspec.structs.replace(group, ranks=ranks)


def _code(code: CompiledPlan, mesh: Mesh, small: Mesh) -> CompiledPlan:
    import numpy as np

    programs = np.frombuffer(code.rank_program, dtype=np.uint32).reshape(mesh.sizes)
    for dim, (old, new) in enumerate(zip(mesh.sizes, small.sizes, strict=True)):
        if old != new:
            programs = programs.take(np.zeros(new, dtype=np.intp), axis=dim)
    world = int(programs.size)
    offsets, members = array("I", [0]), array("I")
    for index, kind in enumerate(code.group_kind):
        if not kind:
            members.extend(range(world) if index == 0 else (0,))
        offsets.append(len(members))
    return msgspec.structs.replace(
        code,
        world_size=world,
        mesh_sizes=array("I", small.sizes),
        rank_program=array("I", programs.tobytes()),
        group_off=offsets,
        group_members=members,
    )
