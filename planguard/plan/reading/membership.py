"""Door checks of ranks against groups: members, peers, roots, split vectors.

Each distinct reference of a program is checked once for all ranks that run the program, so the cost
follows the text of the plan and not the number of its actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.plan.actions import (
    MEMBER,
    NONE,
    ON_GROUPS,
    PeerMode,
    is_collective,
    is_point_to_point,
)
from planguard.plan.code import REF_WORDS, WORDS
from planguard.plan.defects import Defect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.plan.code import CompiledPlan, Program
    from planguard.plan.groups import Mesh, ProcessGroup
    from planguard.plan.nodes import Node


class Membership:
    """Checks every program of one plan."""

    def __init__(
        self, code: CompiledPlan, mesh: Mesh | None, groups: Sequence[ProcessGroup]
    ) -> None:
        self._code, self._mesh, self._groups = code, mesh, groups
        self._members: dict[int, frozenset[int]] = {}
        self._said: dict[int, list[tuple[int, int, int]]] = {}

    def check(self, index: int, ranges: Sequence[range]) -> None:
        """Check one program for the ranks that run it.

        Raises:
            Defect: PG401, PG402, PG403, PG404, or split vectors of a wrong length.
        """
        program = self._code.programs[index]
        if not any(ranges):
            return
        said = self._said.get(id(program.code))
        if said is None:  # several programs may share one list of words
            said = self._said[id(program.code)] = list(_distinct(program))
        for ref, sig, place in said:
            kind = program.code[place * WORDS] & (MEMBER - 1)
            _, group, mode, a, b, _ = self._code.refs[ref * REF_WORDS : (ref + 1) * REF_WORDS]
            node = program.nodes[place]
            self._check_members(node, group, ranges)
            if is_point_to_point(kind):
                if mode == PeerMode.ABSOLUTE:
                    self._check_absolute(node, group, a, ranges)
                elif mode == PeerMode.RELATIVE:
                    self._check_relative(node, group, a, b, ranges)
            elif is_collective(kind):
                self._check_signature(node, group, sig, ranges)

    def _members_of(self, group: int) -> frozenset[int]:
        if group not in self._members:
            self._members[group] = frozenset(self._groups[group].ranks)
        return self._members[group]

    def _check_members(self, node: Node, group: int, ranges: Sequence[range]) -> None:
        if group == 0 or self._groups[group].is_family:
            return
        members = self._members_of(group)
        for ranks in ranges:
            if not members.issuperset(ranks):
                rank = next(rank for rank in ranks if rank not in members)
                message = f"rank {rank} runs this and is not in group {self._groups[group].name}"
                hint = f"the group has the ranks {_some(self._groups[group].ranks)}"
                raise Defect(node, "group", message, code="PG401", value=rank, hint=hint)

    def _outside(self, group: int, rank: int, ranges: Sequence[range]) -> int | None:
        """Return a rank whose group of this name does not contain ``rank``, or None."""
        spec, mesh = self._groups[group], self._mesh
        if group == 0:
            return None
        if not spec.is_family or mesh is None:
            return None if rank in self._members_of(group) else ranges[0][0]
        base = mesh.family_base(rank, spec.mesh_dims)
        return next(
            (r for ranks in ranges for r in ranks if mesh.family_base(r, spec.mesh_dims) != base),
            None,
        )

    def _check_absolute(self, node: Node, group: int, peer: int, ranges: Sequence[range]) -> None:
        rank = self._outside(group, peer, ranges)
        if rank is not None:
            raise self._peer_outside(node, group, rank, peer)

    def _peer_outside(self, node: Node, group: int, rank: int, peer: int) -> Defect:
        name = self._groups[group].name
        members = self._groups[group].members(rank, self._mesh)
        message = f"peer {peer} of rank {rank} is not in its group {name}"
        hint = f"the group of rank {rank} has the ranks {_some(members)}"
        return Defect(node, "peer", message, code="PG403", value=peer, hint=hint)

    def _check_relative(
        self, node: Node, group: int, dim: int, step: int, ranges: Sequence[range]
    ) -> None:
        mesh = self._mesh
        assert mesh is not None  # noqa: S101 - refs.py refuses relative peers without a mesh
        delta, wrap = step >> 1, bool(step & 1)
        size = mesh.sizes[dim]
        if not wrap:
            rank_off = self._off_mesh(dim, delta, ranges)
            if rank_off is not None:
                place = mesh.coordinate(rank_off, dim)
                message = (
                    f"rank {rank_off} has {mesh.names[dim]} {place} of 0..{size - 1}: "
                    f"{delta:+d} leaves the mesh"
                )
                hint = 'give the ranks at the edge another template, or add "wrap": true'
                raise Defect(node, "peer", message, code="PG402", value=delta, hint=hint)
        self._check_relative_members(node, group, dim, step, ranges)

    def _off_mesh(self, dim: int, delta: int, ranges: Sequence[range]) -> int | None:
        mesh = self._mesh
        assert mesh is not None  # noqa: S101 - as above
        size = mesh.sizes[dim]
        for ranks in ranges:
            for rank in _one_per_coordinate(ranks, size, mesh.strides[dim]):
                if not 0 <= mesh.coordinate(rank, dim) + delta < size:
                    return rank
        return None

    def _check_relative_members(
        self, node: Node, group: int, dim: int, step: int, ranges: Sequence[range]
    ) -> None:
        spec, mesh = self._groups[group], self._mesh
        delta, wrap = step >> 1, bool(step & 1)
        if group == 0 or mesh is None or (spec.is_family and dim in spec.mesh_dims):
            return
        members = frozenset() if spec.is_family else self._members_of(group)
        for ranks in ranges:
            for rank in ranks:
                peer = mesh.shift(rank, dim, delta, wrap=wrap)
                if peer is not None and peer not in members:
                    raise self._peer_outside(node, group, rank, peer)

    def _check_signature(self, node: Node, group: int, sig: int, ranges: Sequence[range]) -> None:
        signature = self._code.signatures[sig]
        if signature.root is not None and self._code.sig_root[sig] != NONE:
            rank = self._outside(group, signature.root, ranges)
            if rank is not None:
                name = self._groups[group].name
                members = self._groups[group].members(rank, self._mesh)
                message = f"root {signature.root} is not in group {name} of rank {rank}"
                hint = f"roots are global ranks; the group has the ranks {_some(members)}"
                raise Defect(node, "root", message, code="PG404", value=signature.root, hint=hint)
        if signature.splits is None:
            return
        size = self._groups[group].size(self._mesh)
        for field, split in zip(("in_splits", "out_splits"), signature.splits, strict=True):
            if split is not None and len(split) != size:
                message = f"{len(split)} splits for a group of {size}"
                hint = "one number of elements for every member of the group, in group order"
                raise Defect(node, field, message, value=split, hint=hint)


def _one_per_coordinate(ranks: range, size: int, stride: int) -> Iterator[int]:
    """Yield ranks that have among them every coordinate, along one dimension, of all of them.

    A coordinate is constant over blocks of ``stride`` ranks and repeats after ``size`` blocks.
    """
    if stride % ranks.step:
        yield from ranks
        return
    yield ranks[0]
    first = -(-(stride - ranks.start % stride) // ranks.step)
    yield from ranks[first :: stride // ranks.step][:size]


def _distinct(program: Program) -> Iterator[tuple[int, int, int]]:
    """Yield each distinct ``(reference, signature, first instruction)`` of a program."""
    words = program.code
    triples = list(zip(words[::WORDS], words[1::WORDS], words[3::WORDS], strict=True))
    # Backwards, so that the first of equal ones is what stays.
    first = dict(zip(reversed(triples), range(len(triples) - 1, -1, -1), strict=True))
    for triple in sorted(first):
        kind = triple[0] & (MEMBER - 1)
        if kind in ON_GROUPS:
            yield triple[1], triple[2], first[triple]


def _some(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:8])
    return f"{shown}, ..." if len(ranks) > 8 else shown
