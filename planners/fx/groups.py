"""Process groups of one process to groups of the plan, and the programs of ranks never captured.

torch names groups by a counter of the process, and the name is part of the key under which members
find each other. So a group of the plan is a list of ranks *and* a name: members that disagree on
either never meet, here as there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planguard.errors import PlanError

from .model import RankProgram
from .translate import translate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .model import FxBundle, FxGroup
    from .translate import Draft, RankDraft


@dataclass(frozen=True)
class GroupKey:
    """Identity of a process group: its ranks in order, and its name or what made it."""

    ranks: tuple[int, ...]
    name: str


class Mesh:
    """Coordinates of ranks, row-major with the last dimension fastest."""

    def __init__(self, dims: tuple[tuple[str, int], ...]) -> None:
        self.dims = dims

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Return the coordinates of a rank."""
        found = []
        for _, size in reversed(self.dims):
            rank, place = divmod(rank, size)
            found.append(place)
        return tuple(reversed(found))

    def members(self, rank: int, varying: Iterable[int]) -> tuple[int, ...]:
        """Return the ranks that differ from ``rank`` in the given dimensions at most, in order."""
        free = set(varying)
        found, stride = [0], math.prod(size for _, size in self.dims)
        for place, (own, (_, size)) in enumerate(
            zip(self.coordinates(rank), self.dims, strict=True)
        ):
            stride //= size
            steps = range(size) if place in free else (own,)
            found = [base + step * stride for base in found for step in steps]
        return tuple(found)

    def family(self, rank: int, ranks: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the dimensions that vary inside a group, None when it is not a mesh group."""
        places = [self.coordinates(member) for member in ranks]
        varying = tuple(
            place for place in range(len(self.dims)) if len({where[place] for where in places}) > 1
        )
        return varying if self.members(rank, varying) == ranks else None


def used_groups(draft: RankDraft) -> list[str]:
    """Return the names of the groups a program communicates on, in order of first use."""
    return list(dict.fromkeys(d.communication.group for d in flat(draft.drafts) if d.communication))


def flat(drafts: Iterable[Draft]) -> list[Draft]:
    """Return drafts with the ones inside branches."""
    found: list[Draft] = []
    for draft in drafts:
        found.append(draft)
        for branch in draft.branches:
            found += flat(branch)
    return found


def keys_of_rank(
    rank: int, table: Mapping[str, FxGroup], draft: RankDraft, world: int
) -> dict[str, GroupKey]:
    """Return the identity of every group a rank uses.

    Raises:
        PlanError: If the rank is not a member, or the group reaches outside the world.
    """
    found = {}
    for name in used_groups(draft):
        group = table[name]
        if rank not in group.ranks:
            raise PlanError(
                f"rank {rank} issues a collective on group {name!r} {list(group.ranks)}, of which "
                "it is no member",
                code="PG401",
                path=f"rank {rank}",
                hint="is the group table of the same process as the graph?",
            )
        if max(group.ranks) >= world or min(group.ranks) < 0:
            raise PlanError(
                f"group {name!r} {list(group.ranks)} reaches outside the world of {world}",
                code="PG402",
                path=f"rank {rank}",
            )
        found[name] = GroupKey(group.ranks, group.name)
    return found


def follower_keys(
    origin: int, follower: int, keys: Mapping[str, GroupKey], bundle: FxBundle
) -> dict[str, GroupKey]:
    """Return the groups that ``follower`` uses where ``origin`` uses ``keys`` (SPMD substitution).

    A group keeps its place in the mesh. Its name is what a captured member calls the same ranks,
    else what ``origin`` calls its own group.

    Raises:
        PlanError: If a group has no counterpart, because it is no group of the mesh.
    """
    mesh = Mesh(bundle.mesh or (("world", bundle.world_size),))
    found = {}
    for name, key in keys.items():
        varying = mesh.family(origin, key.ranks)
        if varying is None:
            raise PlanError(
                f"rank {follower} has no graph of its own, and group {name!r} {list(key.ranks)} of "
                f"rank {origin} is no group of the mesh, so its counterpart is unknown",
                path=f"rank {follower}",
                hint="pass mesh=[(name, size), ...] that makes the group, or the graph of the rank",
            )
        ranks = mesh.members(follower, varying)
        found[name] = GroupKey(ranks, _name_there(origin, ranks, name, key, bundle))
    return found


def substituted(bundle: FxBundle, origin: int, follower: int) -> RankProgram:
    """Return the program of ``follower``, taken to run the graphs of ``origin`` on its own groups.

    Raises:
        PlanError: If a group has no counterpart, or a node cannot stand for another rank.
    """
    program = bundle.programs[origin]
    draft = translate(program, compute="none")
    refuse_dependent(draft, origin, follower)
    keys = keys_of_rank(origin, program.groups, draft, bundle.world_size)
    there = follower_keys(origin, follower, keys, bundle)
    groups = {
        name: replace(program.groups[name], ranks=key.ranks, name=key.name)
        for name, key in there.items()
    }
    return RankProgram(program.graphs, groups)


def refuse_dependent(draft: RankDraft, origin: int, follower: int) -> None:
    """Refuse to let a program stand for another rank when it names peers or uneven splits.

    Raises:
        PlanError: It does.
    """
    for item in flat(draft.drafts):
        talk = item.communication
        if talk is not None and talk.rank_dependent:
            raise PlanError(
                f"node {talk.node!r} of rank {origin} cannot stand for rank {follower}: "
                f"{talk.rank_dependent}",
                path=f"rank {follower}",
                hint="capture that rank itself",
            )


def _name_there(
    origin: int, ranks: tuple[int, ...], spelling: str, key: GroupKey, bundle: FxBundle
) -> str:
    """Find what captured members of ``ranks`` call the group that plays the same part."""
    if ranks == key.ranks:
        return key.name
    own = bundle.programs[origin].groups
    place = alike(own, own[spelling]).index(spelling)
    for member in ranks:
        table = bundle.programs[member].groups if member in bundle.programs else {}
        wanted = [
            group
            for group in table.values()
            if group.ranks == ranks and group.desc == own[spelling].desc
        ]
        if place < len(wanted):
            return wanted[place].name
    return f"{own[spelling].desc or spelling}#{place}"


def alike(table: Mapping[str, FxGroup], group: FxGroup) -> list[str]:
    """Return the names of the groups of the same ranks and origin: several meshes over one set."""
    return [
        name
        for name, other in table.items()
        if other.ranks == group.ranks and other.desc == group.desc
    ]


class PlanGroups:
    """Names for the groups of the plan, readable and unique; ``world`` for the default group."""

    def __init__(self, world: int) -> None:
        self.world = world
        self.names: dict[GroupKey, str] = {}
        self.taken: set[str] = {"world"}

    def name(self, key: GroupKey, desc: str) -> str:
        """Return the plan's name of a group, new at the first call."""
        if key in self.names:
            return self.names[key]
        whole = key.ranks == tuple(range(self.world))
        if whole and (desc == "default_pg" or key.name in ("0", "world", "WORLD")):
            self.names[key] = "world"
            return "world"
        stem = f"{desc or 'group'} {_interval(key.ranks)}"
        name = stem if stem not in self.taken else f"{stem} ({key.name})"
        while name in self.taken:
            name += "'"
        self.taken.add(name)
        self.names[key] = name
        return name


def _interval(ranks: tuple[int, ...]) -> str:
    first, last = ranks[0], ranks[-1]
    step = ranks[1] - first if len(ranks) > 1 else 1
    if step > 0 and len(ranks) > 2 and ranks == tuple(range(first, last + 1, step)):
        return f"[{first}-{last}]" if step == 1 else f"[{first}-{last}:{step}]"
    return f"[{','.join(map(str, ranks))}]"
