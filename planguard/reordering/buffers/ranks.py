"""The ranks of a plan with fused buffers: those that run one program are taken apart once.

What a rank issues, and in which orders, follows from its program alone. Only names differ between
ranks that share one: those of the groups and buffers of a family, and the peers of messages. So one
rank of each program is looked at, and the others are the same with their own names. Every rank is
looked at alone where that does not do: a message beside members, whose channel is its own, and
buffers that ranks agree on, unless all ranks run one program: then what they agree on is alike, and
what is agreed in one group of a family is in each.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.plan import nodes as n
from planguard.plan.actions import MARKERS
from planguard.plan.flatten import Flattener
from planguard.plan.taking import WORK, Taking
from planguard.plan.vocabulary import MESSAGES
from planguard.reordering.blocks import Plain, RankOrder
from planguard.reordering.buffers.beside import parts_of
from planguard.reordering.buffers.handles import with_own_handles
from planguard.reordering.buffers.members import buffers_of, homes_of
from planguard.reordering.buffers.merge import EveryRankError
from planguard.reordering.buffers.rank import PLAIN, fused_rank

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.plan.code import Program
    from planguard.plan.plan import Plan
    from planguard.plan.rows import Rows
    from planguard.reordering.buffers.events import Conflict
    from planguard.reordering.buffers.members import Buffer
    from planguard.reordering.buffers.rank import FusedRank, Held


class Ranks:
    """The ranks of a plan with fused buffers.

    Args:
        plan: The plan.
        apart: Look at every rank alone, and at all of its actions.

    Attributes:
        taking: Makes plans of the rows of the plan.
        buffers: Its fused buffers, one for each group of a family.
        homes: Where their members are.
        first: Per rank, the rank that it is the same as but for names.
        is_apart: Whether every rank is looked at alone.
        labels: Per rank, labels that actions get beside those that the plan has (``identify``).

    Raises:
        UndecidedError: A member is used in a way that is not decided.
        EveryRankError: It is to be told of every action which handle it starts.
    """

    def __init__(self, plan: Plan, *, apart: bool = False) -> None:
        self._plan = plan
        self.taking = Taking(plan, fused=False)
        is_agreed = any(spec.coordination not in {UNSET, "none"} for spec in plan.fusion)
        self.is_apart = apart or (is_agreed and len(set(plan.code.rank_program)) > 1)
        has_loops = self.taking.plan is not plan
        self._has_plain = not (self.is_apart or is_agreed or has_loops)
        kept = [_kept(plan, one) for one in plan.code.programs] if self._has_plain else None
        self._flattener = Flattener(plan, kept)
        self.buffers = buffers_of(self._flattener.fused())
        self.homes = homes_of(self.buffers)
        self._of_group = {(buffer.spec, buffer.group): buffer for buffer in self.buffers}
        self._ranks: dict[int, FusedRank] = {}
        self.first: list[int] = []
        self.labels: list[dict[int, str]] = [{} for _ in plan.code.rank_program]
        firsts: dict[int, int] = {}
        for rank, program in enumerate(plan.code.rank_program):
            first = firsts.setdefault(program, rank)
            if first != rank and (self.is_apart or _has_messages(self._ranks[first])):
                first = rank
            self.first.append(first)
            if first == rank:
                self._ranks[rank] = self._alone(rank)

    def __getitem__(self, rank: int) -> FusedRank:
        """Return a rank."""
        found = self._ranks.get(rank)
        if found is None:
            found = self._ranks[rank] = self._like(self._ranks[self.first[rank]], rank)
        return found

    def __iter__(self) -> Iterator[FusedRank]:
        return (self[rank] for rank in range(len(self.first)))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def alone(self) -> dict[int, FusedRank]:
        """The ranks that were looked at, by their numbers."""
        return {rank: self[rank] for rank in dict.fromkeys(self.first)}

    @property
    def is_one_program(self) -> bool:
        """Whether all ranks run one program, word for word, be it written once or for each."""
        code = self._plan.code
        return len({code.programs[at].code.tobytes() for at in set(code.rank_program)}) == 1

    @cached_property
    def members(self) -> dict[str, list[int]]:
        """The ranks of every group, by the names of the flat form."""
        return self._flattener.members()

    def members_of(self, rank: int, group: str) -> Sequence[int]:
        """Return the ranks of a group of a rank."""
        return self._plan.group(self.family(rank, group)).members(rank, self._plan.mesh)

    def lonely(self, rank: int) -> frozenset[str]:
        """Return the groups of one rank that a rank may use."""
        mesh = self._plan.mesh
        small = [group.name for group in self._plan.groups if group.size(mesh) == 1]
        return frozenset(self.names(rank).get(name, name) for name in small)

    @cached_property
    def _names(self) -> dict[int, dict[str, str]]:
        """By rank, the names of the groups that it means by families; filled when asked."""
        return {}

    def names(self, rank: int) -> dict[str, str]:
        """Return by family the name of the group that a rank means by it."""
        found = self._names.get(rank)
        if found is None:
            found = self._names[rank] = self._flattener.names(rank)
        return found

    @cached_property
    def head(self) -> dict[str, Any]:
        """The flat plan without its programs and its buffers."""
        return {key: value for key, value in self._flattener.head().items() if key != "fusion"}

    @property
    def fusion(self) -> list[dict[str, Any]]:
        """The fused buffers of the flat plan, one for each group of a family."""
        return [entry for _, entry in self._flattener.fused()]

    def name_of(self, buffer: Buffer) -> str:
        """Return the id that a buffer has in the plan, the same for all groups of a family."""
        return self._plan.fusion[buffer.spec].id

    @cached_property
    def uneven(self) -> frozenset[int]:
        """The buffers, by their entries, with members that have other sizes on two ranks.

        A flush is one call with the sum of their sizes, which may be equal; but it is a list of
        tensors, whose layout has to agree like that of a coalesced call.
        """
        sizes: dict[tuple[int, str], int] = {}
        found = set[int]()
        for rank in self.alone.values():
            for held in rank.held:
                for name, size in zip(held.ready.names, held.ready.sizes, strict=True):
                    if sizes.setdefault((held.buffer.spec, name), size) != size:
                        found.add(held.buffer.spec)
        return frozenset(found)

    def handles(self, rank: int) -> frozenset[str]:
        """Return the handles of the program of a rank."""
        names = self.taking.rows(rank).program.slot_names
        return frozenset(name.removeprefix(WORK) for name in names if name.startswith(WORK))

    def local(self, rank: int, group: str) -> str:
        """Return a group of a rank by its name in the program that stands for that of the rank."""
        family = self.family(rank, group)
        return self.names(self.first[rank]).get(family, group)

    def family(self, rank: int, group: str) -> str:
        """Return a group of a rank as its program writes it."""
        return next((name for name, mine in self.names(rank).items() if mine == group), group)

    def conflict_of(self, rank: int, found: Conflict) -> Conflict:
        """Return a conflict of the rank that stands for this one as one of this one."""
        first = self.first[rank]
        if first == rank:
            return found
        held = found.held
        if held is not None:
            number = next(n for n, one in enumerate(self[first].held) if one is held)
            held = self[rank].held[number]
        queue = found.queue
        if queue is not None:
            queue = self.names(rank).get(self.family(first, queue), queue)
        return replace(found, queue=queue, held=held)

    def _alone(self, rank: int) -> FusedRank:
        items = self._flattener.program(rank)
        rows = self.taking.rows(rank)
        spans: list[range] = rows.spans
        parts: list[Any] = []
        places = _places(rows)
        if self._has_plain:
            items, spans, parts = self._with_plain(rank, items, rows)
            if with_own_handles(items, self._is_member)[1]:
                raise EveryRankError
        else:
            named, _ = with_own_handles(items, self._is_member)
            pairs = zip(named, spans, strict=True)
            found = [one for pair in pairs for one in parts_of(*pair, places, self._is_member)]
            items, spans = [item for item, _, _ in found], [span for _, span, _ in found]
            parts = [part for _, _, part in found]
        order = RankOrder(rank, tuple(parts))
        return fused_rank(self.buffers, self.homes, order, items, spans)

    def _is_member(self, fields: dict[str, Any]) -> bool:
        return (fields.get("group", "world"), fields.get("id")) in self.homes

    def _with_plain(
        self, rank: int, kept: list[Any], rows: Rows
    ) -> tuple[list[Any], list[range], list[Any]]:
        """Return items, their actions and parts of a rank of which some actions were flattened."""
        items, spans, parts = list[Any](), list[range](), list[Any]()
        flat = iter(kept)
        members = _members(self._plan)
        row: list[Any] = []
        for node, span in zip(self._plan.program(rank).actions, rows.spans, strict=True):
            if _is_plain(node, members):
                row.append(node)
                continue
            if row:
                _add_plain(row, span.start, items, spans, parts)
                row = []
            places = (at for at in span if rows.kinds[at] not in MARKERS)
            for item, inside, part in parts_of(next(flat), span, places, self._is_member):
                items.append(item)
                spans.append(inside)
                parts.append(part)
        if row:
            _add_plain(row, len(rows.kinds), items, spans, parts)
        return items, spans, parts

    def _like(self, first: FusedRank, rank: int) -> FusedRank:
        """Return a rank that runs the program of another one."""
        mine = self.names(rank)
        to = {name: mine[family] for family, name in self.names(first.order.rank).items()}
        held = tuple(self._held(one, to) for one in first.held)
        return replace(first, order=RankOrder(rank, first.order.parts), held=held)

    def _held(self, held: Held, to: dict[str, str]) -> Held:
        group = held.buffer.group
        if to.get(group, group) == group:
            return held
        old = self._of_group[held.buffer.spec, group]
        new = self._of_group[held.buffer.spec, to[group]]
        return replace(held, buffer=_renamed(held.buffer, old, new))


def _renamed(buffer: Buffer, old: Buffer, new: Buffer) -> Buffer:
    """Return a buffer, or one of a pool, of another group of a family."""
    return replace(buffer, id=new.id + buffer.id.removeprefix(old.id), group=new.group)


def _has_messages(rank: FusedRank) -> bool:
    """Whether something beside members names peers."""
    return any(
        leaf.fields["op"] in MESSAGES or leaf.fields["op"] == "batch"
        for element, leaf in enumerate(rank.leaves)
        if element not in rank.owner
    )


def _places(rows: Rows) -> Iterator[int]:
    """Yield the actions of a program that are issued."""
    return (at for at, kind in enumerate(rows.kinds) if kind not in MARKERS)


def _members(plan: Plan) -> set[str]:
    return {name for spec in plan.fusion for name in spec.members}


def _kept(plan: Plan, program: Program) -> list[Any]:
    """Return the actions of a program that are looked at."""
    members = _members(plan)
    return [node for node in program.actions if not _is_plain(node, members)]


def _is_plain(node: Any, members: set[str]) -> bool:
    """Whether an action is issued as it is: no member, no block, and it refers to nothing."""
    kind: type = node.__class__
    return kind not in _LOOKED_AT and node.id not in members


def _add_plain(
    row: list[Any], end: int, items: list[Any], spans: list[range], parts: list[Any]
) -> None:
    """Add actions in a row, which end before another action, as one item."""
    actions = range(end - len(row), end)
    parts.append(Plain(actions, row))
    items.append({"op": PLAIN, "nodes": row})
    spans.append(actions)


_LOOKED_AT = frozenset({n.Unordered, n.Threads, n.Choice, n.Repeat, n.Wait, n.Test, n.Drop,
                        n.Compute})  # fmt: skip
"""Actions that may name members, or their handles or results, and blocks."""
