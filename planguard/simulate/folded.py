"""Large symbolic plans on a small mesh: ranks that no permutation tells apart are run once.

Where all ranks along a dimension of the mesh run one program, nobody there is named by number (no
absolute peer, no root, no split vector, no explicit group, no stated topology), and no message goes
along it, every permutation of the coordinates of that dimension maps the plan onto itself. Start
and end of an action form a max-plus system with one solution, so they are the same at every
coordinate: two of them, run with what a round of the whole group costs, stand for all. Two and not
one, so that a round keeps more than one member and its last one has company.

::

    dp 64 x tp 8 x pp 4, messages along pp     ->  dp 2 x tp 2 x pp 4: 16 ranks stand for 2,048
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.plan.actions import MEMBER, OPERATION_KINDS, Kind, PeerMode, is_collective
from planguard.plan.code import REF_WORDS, WORDS
from planguard.plan.format import read
from planguard.plan.groups import WORLD
from planguard.plan.selectors import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planguard.plan.groups import Mesh
    from planguard.plan.plan import Plan

LARGE = 256
"""Worlds up to this size are run rank by rank."""
KEPT = 2
"""Coordinates that stay of a dimension."""
_SIMPLE = frozenset(
    {Kind.COMPUTE, Kind.REPEAT, Kind.BATCH, Kind.NOP, Kind.BIND, Kind.SEND, Kind.RECV, Kind.WAIT,
     Kind.WAIT_MANY, Kind.TEST, Kind.DROP, Kind.HOST_SYNC, Kind.EVENT_RECORD, Kind.EVENT_WAIT,
     Kind.COPY}
)  # fmt: skip
"""Kinds that name no rank but as a peer; collectives of this package come in addition."""
_MESSAGES = frozenset({Kind.SEND, Kind.RECV})
MOST = 2_000_000
"""Most instructions of all programs: a plan that lists its ranks is not looked through."""


@dataclass(frozen=True)
class Folded:
    """A small plan that stands for a large one.

    Attributes:
        plan: The small plan.
        mesh: The mesh of the large one.
        ranks: Rank in the large plan of every rank of the small one.
        stands: Every rank of the large plan, by the one of ``ranks`` that stands for it.
    """

    plan: Plan
    mesh: Mesh
    ranks: tuple[int, ...]
    stands: Mapping[int, Sequence[int]]

    def members(self, small: Sequence[int]) -> list[int]:
        """Return the members, in the large plan, of a group of the small one."""
        own, first = self.plan.mesh, small[0]
        assert own is not None  # noqa: S101  a folded plan has the mesh it was folded along
        dims = [
            dim
            for dim in range(len(own.sizes))
            if any(own.coordinate(rank, dim) != own.coordinate(first, dim) for rank in small)
        ]
        base = self.mesh.family_base(self.ranks[first], dims)
        return [base + offset for offset in self.mesh.family_offsets(dims)]


def folded(plan: Plan) -> Folded | None:
    """Return the small plan of a large one; None where its ranks cannot be folded."""
    mesh = plan.mesh
    if mesh is None or plan.world_size <= LARGE or not _is_uniform(plan):
        return None
    dims = [dim for dim in _alike(plan, mesh) if mesh.sizes[dim] > KEPT]
    if not dims:
        return None
    sizes = [KEPT if dim in dims else size for dim, size in enumerate(mesh.sizes)]
    ranks = tuple(_rank(mesh, place) for place in _places(sizes))
    document = _document(plan, mesh, sizes, ranks)
    small = read(json.dumps(document).encode(), limits=plan.limits)
    return Folded(small, mesh, ranks, _stands(mesh, dims, plan.world_size))


def _is_uniform(plan: Plan) -> bool:
    """Whether no rank is named by number and only what symmetry carries over is in the plan."""
    document, code = plan.document, plan.code
    if document.topology is not UNSET or plan.fusion:
        return False
    if sum(len(program) for program in code.programs) > MOST:
        return False
    for program in code.programs:
        for place, node in enumerate(program.nodes):
            kind = program.code[place * WORDS] & (MEMBER - 1)
            known = is_collective(kind) and kind not in OPERATION_KINDS
            if kind not in _SIMPLE and not known:
                return False
            if kind == Kind.COPY and getattr(node, "peer", UNSET) is not UNSET:
                return False
    if any(one.root is not None or one.splits for one in code.signatures):
        return False
    groups = {code.refs[at + 1] for at in range(0, len(code.refs), REF_WORDS)}
    if any(not plan.groups[at].is_family and plan.groups[at].name != WORLD for at in groups):
        return False
    return all(code.refs[at + 2] == PeerMode.RELATIVE for at in _messages(plan))


def _messages(plan: Plan) -> set[int]:
    """Return where the references of sends and receives begin."""
    return {
        program.code[at + 1] * REF_WORDS
        for program in plan.code.programs
        for at in range(0, len(program.code), WORDS)
        if program.code[at] & (MEMBER - 1) in _MESSAGES
    }


def _alike(plan: Plan, mesh: Mesh) -> Iterator[int]:
    """Yield the dimensions along which programs are equal and no message goes."""
    import numpy as np

    crossed = {plan.code.refs[at + 3] for at in _messages(plan)}
    programs = np.asarray(plan.code.rank_program).reshape(mesh.sizes)
    for dim in range(len(mesh.sizes)):
        first = programs.take([0], axis=dim)
        if dim not in crossed and bool((programs == first).all()):
            yield dim


def _places(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    import itertools

    return itertools.product(*(range(size) for size in sizes))


def _rank(mesh: Mesh, place: Sequence[int]) -> int:
    return sum(at * stride for at, stride in zip(place, mesh.strides, strict=True))


def _stands(mesh: Mesh, dims: Sequence[int], world: int) -> dict[int, list[int]]:
    """Return all ranks by the one that stands for them: coordinate 0, or 1 for all the others."""
    import numpy as np

    ranks = np.arange(world)
    for_whom = ranks.copy()
    for dim in dims:
        place = ranks // mesh.strides[dim] % mesh.sizes[dim]
        for_whom -= (place - np.minimum(place, KEPT - 1)) * mesh.strides[dim]
    return {int(one): np.nonzero(for_whom == one)[0].tolist() for one in np.unique(for_whom)}


def _document(plan: Plan, mesh: Mesh, sizes: Sequence[int], ranks: Sequence[int]) -> dict[str, Any]:
    """Return the plan file of the small plan: the same programs on a smaller mesh."""
    document: dict[str, Any] = json.loads(plan.text)
    document["world_size"] = prod(sizes)
    document["mesh"]["dims"] = [[n, s] for n, s in zip(mesh.names, sizes, strict=True)]
    given = [
        (parse(selector, plan.world_size, mesh), value)
        for selector, value in document["ranks"].items()
    ]
    document["ranks"] = {
        str(number): next(value for ranges, value in given if any(rank in own for own in ranges))
        for number, rank in enumerate(ranks)
    }
    groups = document.get("groups", {})
    document["groups"] = {name: one for name, one in groups.items() if "ranks" not in one}
    document.pop("approximations", None)  # of ranks by number; they decide no time
    return document
