"""Traffic of a plan: bytes and messages per (sender, receiver), by primitive, group, dtype, phase.

Counted on the symbolic plan: a loop multiplies, a template counts once for every rank that runs it.
What the plan leaves open (which branch of a ``choice``) is counted in full and noted.

Above 400 lines: one walk over the instructions counts all kinds of traffic into one set of edges.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from planguard.errors import UsageError, shorten
from planguard.plan.actions import (
    MEMBER,
    NONE,
    OPERATION_KINDS,
    SEND_KINDS,
    Kind,
    PeerMode,
    is_collective,
    kind_name,
)
from planguard.plan.code import REF_WORDS, WORDS
from planguard.plan.compiling.operations import FORMULAS, row_of
from planguard.plan.groups import WORLD
from planguard.plan.vocabulary import COALESCED_NAME, SPELLINGS
from planguard.simulate.edges import ALGORITHMS, Call, outgoing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from planguard.plan.code import CompiledPlan, Program, Signature
    from planguard.plan.groups import ProcessGroup
    from planguard.plan.plan import Plan
    from planguard.simulate.edges import Edge

FEW = 16
"""Most edges of one member that are remembered for the members at its place in other groups."""
HOST = -1
"""The host in an edge: the row and column H of a matrix (ComScribe)."""


@dataclass(frozen=True, order=True)
class Key:
    """One kind of traffic. ``family`` is ``p2p``, ``collective`` or ``copy``."""

    family: str
    primitive: str
    group: str
    dtype: str
    phase: str


class Parcel(NamedTuple):
    """What one issue of a communication moves from ``src`` to ``dst``."""

    key: Key
    src: int
    dst: int
    bytes: int
    messages: int


_NOTHING = Key("", "", "", "", "")


@dataclass(frozen=True)
class Traffic:
    """What moves between whom.

    Attributes:
        world_size: Number of ranks.
        algorithm: How collectives were taken apart: ``ring``, ``tree`` or ``pairwise``.
        edges: For every key, ``(src, dst) -> (bytes, messages)``; ``HOST`` stands for the host.
        notes: What the numbers rest on: actions without a size, branches counted in full.
        basis: ``modeled`` for a plan; ``measured`` when a recording says what was moved.
    """

    world_size: int
    algorithm: str
    edges: dict[Key, dict[tuple[int, int], tuple[int, int]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    basis: str = "modeled"

    def total(self, **wanted: str) -> dict[tuple[int, int], tuple[int, int]]:
        """Return the sum over all keys whose fields are those that are given.

        Raises:
            UsageError: A key has no such field, or a field that is no text.
        """
        for name, value in wanted.items():
            if name not in Key.__dataclass_fields__ or not isinstance(value, str):
                hint = f"{', '.join(Key.__dataclass_fields__)}, each a text"
                raise UsageError(f"no traffic of {name}={shorten(value)}", hint=hint)
        if not wanted:
            return dict(self._whole)
        return _sum(
            edges
            for key, edges in self.edges.items()
            if all(getattr(key, name) == value for name, value in wanted.items())
        )

    @cached_property
    def _whole(self) -> dict[tuple[int, int], tuple[int, int]]:
        return _sum(self.edges.values())

    def primitives(self) -> tuple[str, ...]:
        """Return the primitives that occur, in order."""
        return tuple(sorted({key.primitive for key in self.edges}))


def _sum(
    parts: Iterable[dict[tuple[int, int], tuple[int, int]]],
) -> dict[tuple[int, int], tuple[int, int]]:
    """Return bytes and messages of all parts by pair, in the order of the pairs."""
    merged: dict[tuple[int, int], tuple[int, int]] = {}
    for edges in parts:
        if not merged:
            merged = dict(edges)
            continue
        for pair, (size, messages) in edges.items():
            known = merged.get(pair, (0, 0))
            merged[pair] = known[0] + size, known[1] + messages
    return dict(sorted(merged.items()))


def traffic(plan: Plan, algorithm: str = "ring") -> Traffic:
    """Count what a plan moves.

    Args:
        plan: The plan.
        algorithm: How collectives are taken apart: ``ring`` (default), ``tree``, ``pairwise``.

    Raises:
        UsageError: The algorithm is not known.
    """
    if algorithm not in ALGORITHMS:
        hint = f"known: {', '.join(ALGORITHMS)}"
        raise UsageError(f"no such algorithm: {shorten(algorithm)}", hint=hint)
    counter = _Count(plan, algorithm)
    for index, program in enumerate(plan.code.programs):
        ranks = [r for r, p in enumerate(plan.code.rank_program) if p == index]
        for item, times in _items(program).items():
            counter.add(item, times, ranks)
    return Traffic(
        plan.world_size,
        algorithm,
        {
            key: {pair: (cell[0], cell[1]) for pair, cell in sorted(found.items())}
            for key, found in sorted(counter.edges.items())
        },
        counter.notes(),
    )


class Operators:
    """What every operator of a plan moves, counted as ``traffic`` counts it."""

    def __init__(self, plan: Plan, algorithm: str = "ring") -> None:
        self.plan = plan
        self._count = _Count(plan, algorithm)
        self._known: dict[tuple[_Item, int], tuple[Parcel, ...]] = {}

    def of(self, rank: int, instruction: int) -> tuple[Parcel, ...]:
        """Return what one issue of an instruction of a rank moves."""
        item = _item(self.plan.program(rank), instruction)
        return () if item is None else self._parcels(item, rank)

    def all(self) -> Iterator[tuple[tuple[Parcel, ...], int]]:
        """Yield what every operator of every rank moves, with how often it is issued."""
        for rank, number in enumerate(self.plan.code.rank_program):
            for item, times in _items(self.plan.code.programs[number]).items():
                yield self._parcels(item, rank), times

    def _parcels(self, item: _Item, rank: int) -> tuple[Parcel, ...]:
        key = item, rank
        if key not in self._known:
            self._known[key] = tuple(self._count.parcels(item, rank))
        return self._known[key]


@dataclass(frozen=True)
class _Item:
    """What an instruction moves, apart from how often."""

    kind: int
    ref: int
    sig: int
    phase: str
    peer: int | None = None
    size: int | None = None


def _items(program: Program) -> Counter[_Item]:
    """Return the distinct communication of a program with the number of times it is issued."""
    found: Counter[_Item] = Counter()
    for place, times in _times(program):
        item = _item(program, place)
        if item is not None:
            found[item] += times
    return found


def _item(program: Program, place: int) -> _Item | None:
    """Return what an instruction moves; None where it moves nothing."""
    op, ref, _, sig = program.code[place * WORDS : place * WORDS + 4]
    kind = op & (MEMBER - 1)
    node: Any = program.nodes[place]
    phase = "" if node.phase is UNSET else str(node.phase)
    if kind in SEND_KINDS or is_collective(kind):
        return _Item(kind, ref, sig, phase)
    if kind == Kind.COPY:
        peer = getattr(node, "peer", UNSET)
        other = None if peer is UNSET else int(peer)
        name = node.__struct_config__.tag
        memory = "" if node.memory in (UNSET, "explicit") else f" ({node.memory})"
        path = "" if node.path is UNSET else node.path
        return _Item(kind, NONE, sig, f"{name}\0{memory}\0{phase}\0{path}", other)
    return _Item(kind, NONE, 0, "") if kind == Kind.CHOICE_BEGIN else None


def _times(program: Program) -> Iterator[tuple[int, int]]:
    """Yield every instruction with the product of the loops around it."""
    ends: list[tuple[int, int]] = [(len(program), 1)]
    for place in range(len(program)):
        while place >= ends[-1][0]:
            ends.pop()
        op, a, b = program.code[place * WORDS : place * WORDS + 3]
        if op == Kind.REPEAT:
            ends.append((place + 1 + b, ends[-1][1] * a))
        else:
            yield place, ends[-1][1]


class _Count:
    """Adds up the edges of one plan."""

    def __init__(self, plan: Plan, algorithm: str) -> None:
        self.plan, self.algorithm = plan, algorithm
        self.code: CompiledPlan = plan.code
        self.edges: dict[Key, dict[tuple[int, int], list[int]]] = defaultdict(
            lambda: defaultdict(lambda: [0, 0])
        )
        self.unsized = self.branches = self.registered = self.staged = 0
        self.links, self.nodes = _stated(plan)
        self._instances: dict[tuple[str, int], tuple[Sequence[int], dict[int, int]]] = {}
        self._edges: dict[tuple[int, int, int, int], list[Edge]] = {}

    def notes(self) -> tuple[str, ...]:
        found = []
        if self.unsized:
            found.append(f"{self.unsized:,} calls without a size count as 0 bytes")
        if self.branches:
            found.append(f"every branch of {self.branches:,} choices is counted")
        if self.registered:
            found.append(f"{self.registered:,} calls of registered operations are not counted")
        if self.staged:
            found.append(
                f"{self.staged:,} copies between devices without a stated link are counted "
                "through the host"
            )
        return tuple(found)

    def add(self, item: _Item, times: int, ranks: Sequence[int]) -> None:
        self._note(item, times * len(ranks))
        last, cells = None, self.edges[_NOTHING]
        no_path = item.kind == Kind.COPY and item.phase[:4] + item.phase[-1:] == "d2d\0\0"
        for key, src, dst, size, messages in self._all(item, ranks):
            if key is not last:
                last, cells = key, self.edges[key]
            cell = cells[src, dst]
            cell[0] += size * times
            cell[1] += messages * times
            if no_path and src == HOST:
                self.staged += times
        del self.edges[_NOTHING]

    def _all(self, item: _Item, ranks: Sequence[int]) -> Iterator[Parcel]:
        if is_collective(item.kind) and item.kind not in OPERATION_KINDS:
            yield from self._collective(item, ranks)
            return
        for rank in ranks:
            yield from self.parcels(item, rank)

    def _note(self, item: _Item, times: int) -> None:
        """Remember calls that choose, that no formula counts, or that state no size."""
        if item.kind == Kind.CHOICE_BEGIN:
            self.branches += times
        elif item.kind in OPERATION_KINDS and _formula(item) is None:
            self.registered += times
        elif item.kind in OPERATION_KINDS or primitive_of(item.kind) != "barrier":
            signature = self.code.signatures[item.sig]
            if signature.bytes is None and signature.layout is None:
                self.unsized += times

    def parcels(self, item: _Item, rank: int) -> Iterator[Parcel]:
        """Yield what one issue of an item moves from or to a rank: the one place that counts it."""
        if item.kind in OPERATION_KINDS:
            yield from self._registered(item, rank)
        elif item.kind == Kind.COPY:
            yield from self._copy(item, rank)
        elif item.kind in SEND_KINDS:
            yield from self._send(item, rank)
        elif item.kind != Kind.CHOICE_BEGIN:
            yield from self._collective(item, (rank,))

    def _copy(self, item: _Item, rank: int) -> Iterator[Parcel]:
        name, memory, phase, path = item.phase.split("\0")
        signature = self.code.signatures[item.sig]
        key = Key("copy", name + memory, "", signature.dtype or "", phase)
        size, peer = signature.bytes or 0, rank if item.peer is None else item.peer
        if name == "d2d" and not self._is_staged(rank, peer, path):
            yield Parcel(key, rank, peer, size, 1)
            return
        if name != "h2d":
            yield Parcel(key, rank, HOST, size, 1)
        if name != "d2h":
            yield Parcel(key, HOST, rank if name == "h2d" else peer, size, 1)

    def _is_staged(self, rank: int, peer: int, path: str) -> bool:
        """Return whether a copy between devices goes through the host (ComScribe, case 1.3).

        So it is stated, or the plan states links and none between the two.
        """
        if rank == peer or path:
            return path == "via_host" and rank != peer
        if not self.links or self.nodes.get(rank) != self.nodes.get(peer):
            return False  # peer access is a matter of one node
        return frozenset((rank, peer)) not in self.links

    def _send(self, item: _Item, rank: int) -> Iterator[Parcel]:
        _, group, mode, a, b, _ = self.code.refs[item.ref * REF_WORDS : (item.ref + 1) * REF_WORDS]
        signature = self.code.signatures[item.sig]
        name = self.plan.groups[group].name
        key = Key("p2p", "send", name, signature.dtype or "", item.phase)
        peer: int | None = a
        if mode == PeerMode.RELATIVE and self.plan.mesh is not None:
            peer = self.plan.mesh.shift(rank, a, b >> 1, wrap=bool(b & 1))
        if peer is not None:
            yield Parcel(key, rank, peer, signature.bytes or 0, 1)

    def _collective(self, item: _Item, ranks: Sequence[int]) -> Iterator[Parcel]:
        group = self.plan.groups[self.code.refs[item.ref * REF_WORDS + 1]]
        signature = self.code.signatures[item.sig]
        primitive = primitive_of(item.kind)
        if primitive is None:
            return
        key = Key("collective", primitive, group.name, signature.dtype or "", item.phase)
        for rank in ranks:
            members, places = self._members(group, rank)
            known = (item.kind, item.sig, len(members), places[rank])
            edges = self._edges.get(known) if signature.root is None else None
            if edges is None:
                calls = _calls(primitive, signature, members, places[rank])
                edges = [edge for call in calls for edge in outgoing(call, self.algorithm)]
                if len(edges) <= FEW and signature.root is None:
                    self._edges[known] = edges
            for edge in edges:
                yield Parcel(key, rank, members[edge.to], edge.bytes, edge.transfers)

    def _registered(self, item: _Item, rank: int) -> Iterator[Parcel]:
        """Yield what an operation of another package says that it moves."""
        carries = _formula(item)
        if carries is None:
            return
        group = self.plan.groups[self.code.refs[item.ref * REF_WORDS + 1]]
        signature = self.code.signatures[item.sig]
        size = signature.bytes or 0
        name = row_of(item.kind).name
        key = Key("collective", name, group.name, signature.dtype or "", item.phase)
        members, places = self._members(group, rank)
        src = places[rank]
        for dst, other in enumerate(members):
            moved = 0 if dst == src else carries(src, dst, len(members), size)
            if moved:
                yield Parcel(key, rank, other, moved, 1)

    def _members(self, group: ProcessGroup, rank: int) -> tuple[Sequence[int], dict[int, int]]:
        """Return the members of the instance of a group that a rank is in, and their places."""
        mesh = self.plan.mesh
        base = mesh.family_base(rank, group.mesh_dims) if mesh and group.is_family else 0
        found = self._instances.get((group.name, base))
        if found is None:
            members = group.members(rank, mesh)
            if not members and group.name == WORLD:
                members = range(self.plan.world_size)
            found = members, {member: place for place, member in enumerate(members)}
            self._instances[group.name, base] = found
        return found


def _stated(plan: Plan) -> tuple[set[frozenset[int]], dict[int, int]]:
    """Return the pairs that the plan states links for, and the nodes of its ranks."""
    topology: Any = plan.document.topology
    if topology is UNSET:
        return set(), {}
    links = () if topology.links is UNSET else topology.links
    places = () if topology.ranks is UNSET else topology.ranks
    nodes = {place.rank: place.node for place in places if place.node is not UNSET}
    return {frozenset((link.src, link.dst)) for link in links}, nodes


def _formula(item: _Item) -> Callable[[int, int, int, int], int] | None:
    formula = row_of(item.kind).bytes_per_edge
    return FORMULAS[formula] if isinstance(formula, str) else formula


def primitive_of(kind: int) -> str | None:
    """Return the canonical name of a collective, or None for a registered operation."""
    if kind in OPERATION_KINDS:
        return None
    name = COALESCED_NAME.get(kind) or kind_name(kind)
    return SPELLINGS.get(name, name)


def _calls(
    primitive: str, signature: Signature, members: Sequence[int], position: int
) -> Iterator[Call]:
    """Yield the call of a collective: one for each tensor of a coalesced one."""
    sizes = [signature.bytes or 0]
    if signature.layout is not None:
        sizes = [size for size, _ in signature.layout]
    root = 0 if signature.root is None else members.index(signature.root)
    splits = signature.splits[0] if signature.splits else None
    for size in sizes:
        yield Call(primitive, len(members), position, size, root, splits)
