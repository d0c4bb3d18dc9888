"""Which dimensions of a mesh are replicated, and from which size on all sizes behave alike.

A dimension is replicated when rotating the plan along it changes nothing: ranks that differ by
their place along it run one program, and that program names other ranks along it by families of
groups and by steps around a ring only. ``docs/explanation/parametric.md`` has the theorem and its
proof; each reason below is an assumption of that proof that a plan does not meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.arguments import PLAN, arguments
from planguard.plan.actions import (
    KIND_MASK,
    ON_GROUPS,
    Kind,
    PeerMode,
    RefType,
)
from planguard.plan.code import REF_WORDS, WORDS
from planguard.plan.vocabulary import MPI_ONLY

if TYPE_CHECKING:
    from planguard.plan.code import CompiledPlan, Program
    from planguard.plan.plan import Plan

ORDERED = frozenset(row.kind for row in MPI_ONLY)
"""Operations of MPI whose members depend on their place in the group, or on arrival."""


@dataclass(frozen=True)
class Replication:
    """What a plan says of one dimension of its mesh.

    Attributes:
        name: Name of the dimension.
        size: Its size in the plan.
        cutoff: The least size from which on all sizes behave alike; None if it is not replicated.
        reason: Why it is not replicated.
    """

    name: str
    size: int
    cutoff: int | None = None
    reason: str = ""


@arguments(plan=PLAN)
def replications(plan: Plan) -> dict[str, Replication]:
    """Return what a plan says of every dimension of its mesh, by name.

    Args:
        plan: A plan that passed the door; without a mesh it has no dimension.
    """
    if plan.mesh is None:
        return {}
    mesh, code = plan.mesh, plan.code
    whole = _whole_plan(plan)
    steps: list[list[int]] = [[] for _ in mesh.names]
    edges = [False] * len(mesh.names)
    seen: set[tuple[int, int, int]] = set()
    for program in used_programs(code):
        words = program.code
        calls = set(zip(words[::WORDS], words[1::WORDS], words[3::WORDS], strict=True)) - seen
        seen |= calls
        whole = whole or _look(plan, calls, steps, edges)
    uniform = _uniform(code)
    found = {}
    for dim, (name, size) in enumerate(zip(mesh.names, mesh.sizes, strict=True)):
        reason = whole
        if not reason and not uniform[dim]:
            reason = f"ranks that differ by {name} run different programs"
        if not reason and edges[dim]:
            reason = f"a peer along {name} does not wrap: its edges differ from its middle"
        cutoff = None if reason else max([2, *(2 * step + 1 for step in steps[dim])])
        found[name] = Replication(name, size, cutoff, reason)
    return found


def _whole_plan(plan: Plan) -> str:
    """Return why no dimension at all is replicated, or an empty text."""
    if plan.fusion:
        return "fused buffers are filled by each rank in its own order"
    if any(entry.actions for entry in plan.approximations):
        return "an approximation names actions of single ranks"
    return ""


def used_programs(code: CompiledPlan) -> list[Program]:
    """Return the programs that some rank runs."""
    import numpy as np

    counts = np.bincount(np.frombuffer(code.rank_program, dtype=np.uint32))
    return [code.programs[index] for index in np.flatnonzero(counts)]


def _look(
    plan: Plan, calls: set[tuple[int, int, int]], steps: list[list[int]], edges: list[bool]
) -> str:
    """Note steps and edges of some calls; return why no dimension at all is replicated."""
    for op, ref, sig in calls:
        kind = op & KIND_MASK
        if kind in ORDERED:
            return "an operation depends on the places of the members or on their arrival"
        if kind == Kind.NEW_GROUP:
            return "ranks create groups one by one"
        if kind == Kind.DESTROY and ref and not plan.groups[ref].is_family:
            return f"group {plan.groups[ref].name} lists its ranks"
        if kind in ON_GROUPS:
            reason = _reference(plan, ref, steps, edges) or _signature(plan.code, sig)
            if reason:
                return reason
    return ""


def _reference(plan: Plan, ref: int, steps: list[list[int]], edges: list[bool]) -> str:
    kind, group, mode, a, b, _ = plan.code.refs[ref * REF_WORDS : (ref + 1) * REF_WORDS]
    if group and not plan.groups[group].is_family:
        return f"group {plan.groups[group].name} lists its ranks"
    if kind == RefType.GROUP:
        return ""
    if mode == PeerMode.ANY:
        return "a receive takes any source"
    if mode == PeerMode.ABSOLUTE:
        return f"a peer is given as rank {a}"
    if b & 1:
        steps[a].append(abs(b >> 1))
    else:
        edges[a] = True
    return ""


def _signature(code: CompiledPlan, sig: int) -> str:
    signature = code.signatures[sig]
    if signature.root is not None:
        return f"a root is given as rank {signature.root}"
    if signature.splits is not None:
        return "split vectors have one number for each member"
    return ""


def _uniform(code: CompiledPlan) -> list[bool]:
    """Tell for every dimension whether ranks that differ by it alone run one program."""
    import numpy as np

    programs = np.frombuffer(code.rank_program, dtype=np.uint32).reshape(tuple(code.mesh_sizes))
    return [bool((programs == programs.take([0], axis=dim)).all()) for dim in range(programs.ndim)]
