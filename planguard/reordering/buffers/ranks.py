"""The ranks of a plan with fused buffers: those that run one program are taken apart once.

What a rank issues, and in which orders, follows from its program alone. Only names differ between
ranks that share one: those of the groups and buffers of a family, and the peers of messages. So one
rank of each program is looked at, and the others are the same with their own names. Every rank is
looked at alone where that does not do: a message beside members, whose channel is its own, and
buffers that ranks agree on, which name other ranks.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard.plan.flatten import Flattener
from planguard.plan.taking import Taking
from planguard.plan.vocabulary import MESSAGES
from planguard.reordering.blocks import RankOrder, rank_order
from planguard.reordering.buffers.members import buffers_of, homes_of
from planguard.reordering.buffers.rank import fused_rank

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.reordering.buffers.events import Conflict
    from planguard.reordering.buffers.members import Buffer
    from planguard.reordering.buffers.rank import FusedRank, Held


class Ranks:
    """The ranks of a plan with fused buffers.

    Args:
        plan: The plan.
        columns: Its columns.
        apart: Look at every rank alone.

    Attributes:
        taking: Makes plans of the rows of the plan.
        members: The ranks of every group, by the names of the flat form.
        buffers: Its fused buffers, one for each group of a family.
        ranks: Its ranks.
        first: Per rank, the rank that it is the same as but for names.
        is_apart: Whether every rank is looked at alone.

    Raises:
        UndecidedError: A member is used in a way that is not decided.
    """

    def __init__(self, plan: Plan, columns: Any, *, apart: bool = False) -> None:
        self._plan, self._columns = plan, columns
        self.taking = Taking(plan, fused=False)
        self._flattener = Flattener(plan)
        self.members = self._flattener.members()
        self.buffers = buffers_of(self._flattener.fused())
        self._homes = homes_of(self.buffers)
        self._of_group = {(buffer.spec, buffer.group): buffer for buffer in self.buffers}
        self.is_apart = apart or any(buffer.is_coordinated for buffer in self.buffers)
        self._to: dict[int, dict[str, str]] = {}
        self._names: dict[int, dict[str, str]] = {}
        self.ranks: list[FusedRank] = []
        self.first: list[int] = []
        firsts: dict[int, int] = {}
        for rank, program in enumerate(plan.code.rank_program):
            first = firsts.setdefault(program, rank)
            alone = first == rank or self.is_apart or _has_messages(self.ranks[first])
            self.first.append(rank if alone else first)
            self.ranks.append(self._alone(rank) if alone else self._like(self.ranks[first], rank))

    @cached_property
    def head(self) -> dict[str, Any]:
        """The flat plan without its programs and its buffers."""
        return {key: value for key, value in self._flattener.head().items() if key != "fusion"}

    def local(self, rank: int, group: str) -> str:
        """Return a group of a rank by its name in the program that stands for that of the rank."""
        return next((mine for mine, own in self._to.get(rank, {}).items() if own == group), group)

    def conflict_of(self, rank: int, found: Conflict) -> Conflict:
        """Return a conflict of the rank that stands for this one as one of this one."""
        first = self.first[rank]
        if first == rank:
            return found
        held = found.held
        if held is not None:
            number = next(n for n, one in enumerate(self.ranks[first].held) if one is held)
            held = self.ranks[rank].held[number]
        queue = None if found.queue is None else self._to[rank].get(found.queue, found.queue)
        return replace(found, queue=queue, held=held)

    def _alone(self, rank: int) -> FusedRank:
        items = self._flattener.program(rank)
        order = rank_order(rank, items, self._columns)
        return fused_rank(self.buffers, self._homes, order, items, self.taking.rows(rank).spans)

    def _like(self, first: FusedRank, rank: int) -> FusedRank:
        """Return a rank that runs the program of another one."""
        like = first.order.rank
        names = self._names.get(like)
        if names is None:
            names = self._names[like] = self._flattener.names(like)
        mine = self._flattener.names(rank)
        self._to[rank] = to = {name: mine[family] for family, name in names.items()}
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
