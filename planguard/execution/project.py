"""A plan cut down to some of its ranks and actions: what witnesses are executed on again.

It is made of the rows of the compiled plan: what they refer to, groups and ranks, is renumbered,
and nothing is written or read. A witness is made smaller one action at a time, so there are many.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, structs

from planguard.plan.actions import (
    KIND_MASK,
    MEMBER,
    NONE,
    ON_GROUPS,
    Kind,
    PeerMode,
    is_point_to_point,
)
from planguard.plan.code import POOLED, REF_WORDS, WORDS, Program
from planguard.plan.compiling.compile import Compiled
from planguard.plan.defects import Defect
from planguard.plan.groups import WORLD, ProcessGroup
from planguard.plan.plan import Plan
from planguard.plan.taking import check_taken

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Projection:
    """A cut-down plan and where its ranks and actions come from.

    Attributes:
        plan: The cut-down plan, ranks renumbered in order. Its actions are those of the plan it
            was cut from, so peers and groups are known by its words only.
        ranks: Original rank of every new rank.
        actions: Original action index of every new action, per new rank.
    """

    plan: Plan
    ranks: tuple[int, ...]
    actions: tuple[tuple[int, ...], ...]

    def original(self, rank: int, action: int) -> tuple[int, int]:
        """Return the original ``(rank, action)``."""
        return self.ranks[rank], self.actions[rank][action]


def project(plan: Plan, keep: Iterable[tuple[int, int]], ranks: Iterable[int] = ()) -> Projection:
    """Return the plan restricted to some actions; groups are restricted to the kept ranks.

    Args:
        plan: Any plan.
        keep: ``(rank, action)`` pairs to keep; their order within a rank is the plan's.
        ranks: Further ranks that stay as members of their groups, with no action.

    Raises:
        KeyError: An action names a rank that is not kept, or a group without any.
        PlanError: What is kept is no valid program.
    """
    by_rank: dict[int, list[int]] = {rank: [] for rank in ranks}
    for rank, action in sorted(set(keep)):
        by_rank.setdefault(rank, []).append(action)
    kept = tuple(sorted(by_rank))
    cutter = _Cutter(plan, kept)
    programs = [cutter.program(old, by_rank[old]) for old in kept]
    return Projection(cutter.plan_of(programs), kept, tuple(tuple(by_rank[old]) for old in kept))


class _Cutter:
    """Takes rows of a plan for the kept ranks."""

    def __init__(self, plan: Plan, kept: tuple[int, ...]) -> None:
        self.plan = plan
        self.new = {old: new for new, old in enumerate(kept)}
        self.groups = {WORLD: ProcessGroup(WORLD, range(len(kept)))}
        self.refs = array("i")
        self._ids: dict[tuple[int, ...], int] = {}

    def program(self, rank: int, actions: list[int]) -> Program:
        """Return the program of some actions of a rank."""
        base = self.plan.program(rank)
        layout, pool = self.plan.layout(rank), self.plan.code.label_pool
        words, nodes = array("I"), list[Any]()
        for index in actions:
            row, iterations = layout.find(index)
            while True:
                op, a, b, sig, label, stream = base.code[row * WORDS : (row + 1) * WORDS]
                if label & POOLED:
                    label = pool[(label & ~POOLED) + iterations[-1]]
                words.extend((op, self._argument(op, a, rank), b, sig, label, stream))
                self._check(sig, base.nodes[row], rank)
                nodes.append(base.nodes[row])
                row += 1
                op = base.code[row * WORDS] if row < len(base) else 0
                if not op & MEMBER and op != Kind.BIND:
                    break
        steps = ("ranks", str(self.new[rank]), "actions")
        return structs.replace(
            base, steps=steps, actions=[], code=words, nodes=nodes, length=len(actions), origins={}
        )

    def _argument(self, op: int, a: int, rank: int) -> int:
        """Return the first argument of an instruction: a reference or a group is renumbered."""
        kind = op & KIND_MASK
        if kind in {Kind.NEW_GROUP, Kind.DESTROY}:
            return self._group(a, rank)
        if kind not in ON_GROUPS:
            return a
        side, group, mode, first, second, tag = self.plan.code.refs[
            a * REF_WORDS : (a + 1) * REF_WORDS
        ]
        if mode == PeerMode.RELATIVE and self.plan.mesh is not None:
            # The compiler packs the step and whether it wraps into one word (``refs``).
            shifted = self.plan.mesh.shift(rank, first, second >> 1, wrap=bool(second & 1))
            mode, first, second = PeerMode.ABSOLUTE, -1 if shifted is None else shifted, 0
        if mode == PeerMode.ABSOLUTE and is_point_to_point(kind):
            first = self.new[first]
        words = (side, self._group(group, rank), mode, first, second, tag)
        if words not in self._ids:
            self._ids[words] = len(self._ids)
            self.refs.extend(words)
        return self._ids[words]

    def _check(self, sig: int, node: Any, rank: int) -> None:
        """Check that what a signature says of the members of its group is still said of them."""
        root = self.plan.code.sig_root[sig]
        if root != NONE and root not in self.new:
            raise KeyError(root)
        if self.plan.code.sig_splits[sig]:  # one number for every member, in their order
            group = self.plan.group(WORLD if node.group is UNSET else node.group)
            members = group.members(rank, self.plan.mesh)
            if not self.new.keys() >= set(members):
                raise KeyError(group.name)

    def _group(self, index: int, rank: int) -> int:
        """Return the index of the restricted group; the world is restricted by itself."""
        if not index:
            return 0
        group = self.plan.groups[index]
        name = self.plan.group_name(group.name, rank)
        if name not in self.groups:
            members = group.members(rank, self.plan.mesh)
            left = tuple(self.new[other] for other in members if other in self.new)
            if not left:
                raise KeyError(name)
            self.groups[name] = ProcessGroup(name, left)
        return list(self.groups).index(name)

    def plan_of(self, programs: list[Program]) -> Plan:
        """Return the plan of the programs of all kept ranks.

        Raises:
            PlanError: One of them is not valid.
        """
        groups = tuple(self.groups.values())
        offsets, members = array("I", [0]), array("I")
        for group in groups:
            members.extend(group.ranks)
            offsets.append(len(members))
        roots = (self.new.get(root, NONE) for root in self.plan.code.sig_root)
        code = structs.replace(
            self.plan.code,
            world_size=len(programs),
            mesh_sizes=array("I"),
            group_names=tuple(self.groups),
            group_kind=array("B", bytes(len(groups))),
            group_off=offsets,
            group_members=members,
            group_mask=array("I", [0] * len(groups)),
            refs=self.refs,
            programs=tuple(programs),
            rank_program=array("I", range(len(programs))),
            sig_root=array("I", roots),
        )
        ranges = tuple((range(new, new + 1),) for new in range(len(programs)))
        compiled = Compiled(code, None, groups, ranges)
        for program in programs:
            try:
                check_taken(program, compiled)
            except Defect as defect:
                raise defect.at(program.steps, None) from None
        bare = dict.fromkeys(
            ("mesh", "groups", "templates", "fusion", "approximations", "topology"), UNSET
        )
        document = structs.replace(self.plan.document, world_size=len(programs), ranks={}, **bare)
        return Plan(document, compiled, limits=self.plan.limits)
