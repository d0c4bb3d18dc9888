"""Items: the actions of a rank with the matches at which they meet others.

Positions decide matches: the k-th call on a communicator, the k-th send and the k-th receive of a
channel. What an action waits for is written down for the strictest execution of a model: on the
host a blocking call or a wait, on a device every call, since one queue takes all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.guard.steps import Step, Steps
from planguard.plan.actions import ASYNC, KIND_MASK, MEMBER, NONE, Kind, is_collective
from planguard.plan.code import WORDS
from planguard.semantics.model import ExecutionModel, Family

if TYPE_CHECKING:
    from planguard.plan.plan import Plan

COVERED = frozenset({
    Kind.NOP, Kind.SEND, Kind.RECV, Kind.SSEND, Kind.WAIT, Kind.WAIT_MANY, Kind.TEST, Kind.BATCH,
    Kind.COMPUTE, Kind.COPY, Kind.REPEAT, Kind.BIND,
})  # fmt: skip
"""Kinds, besides collectives, whose rules this module knows."""


@dataclass(slots=True)
class Item:
    """One action: the matches it arrives at and awaits, and what tells it from others.

    Attributes:
        arrives: Matches at which it arrives.
        awaits: Matches that have to complete before the next action is issued.
        keys: Group or pair of each of these arrivals.
        handles: Slots of the handles it starts or waits for.
        is_plain: It names no buffer, so that moving it makes no other finding.
        steps: What it issues.
    """

    arrives: tuple[int, ...] = ()
    awaits: tuple[int, ...] = ()
    keys: tuple[Any, ...] = ()
    handles: tuple[int, ...] = ()
    is_plain: bool = True
    steps: tuple[Step, ...] = ()

    @property
    def is_neutral(self) -> bool:
        """Whether it meets nobody and starts or awaits nothing."""
        return not self.keys and not self.handles

    @property
    def is_own(self) -> bool:
        """Whether a message of it goes to its own rank: that match holds two calls of one rank."""
        return any(key[0] == "pair" and key[2] == key[3] for key in self.keys)

    @property
    def content(self) -> tuple[Any, ...]:
        """What it does, without its place; equal contents without handles are interchangeable."""
        return tuple(step._replace(action=0) for step in self.steps)


def covers(plan: Plan, model: ExecutionModel) -> bool:
    """Tell whether the rules of this module hold for a plan under a model."""
    if model.pre_barrier or model.lazy_init or model.one_lock:
        return False
    code = plan.code
    if plan.fusion or len(code.streams) > 1:
        return False
    never = {kind for kind, degree in model.degree.items() if degree}
    never |= {Kind.BARRIER} if model.barrier_last else set()
    for program in code.programs:
        words = program.code
        for op, a, b in set(zip(words[::WORDS], words[1::WORDS], words[2::WORDS], strict=True)):
            kind = op & KIND_MASK
            if kind in never or not (kind in COVERED or is_collective(kind)):
                return False
            if (kind == Kind.COMPUTE and a != NONE) or (kind == Kind.WAIT_MANY and b):
                return False
    return not any(s.bytes == 0 and s.kind in model.empty_alone for s in code.signatures)


class Numbering:
    """Gives every action its matches: the k-th on a group, the k-th on a side of a channel."""

    def __init__(self, plan: Plan, model: ExecutionModel) -> None:
        self._plan = plan
        self._steps = Steps(plan)
        self._on_device = model.family is Family.DEVICE
        self._tags = model.use_tags
        self._matches: dict[tuple[Any, int], int] = {}

    def items(self) -> list[list[Item]]:
        """Return the items of every rank."""
        return [self.rank(rank) for rank in range(self._plan.world_size)]

    def rank(self, rank: int) -> list[Item]:
        """Return the items of one rank."""
        counts: dict[Any, int] = {}
        flying: dict[int, tuple[int, ...]] = {}
        items: list[Item] = []
        nodes = self._plan.program(rank).nodes
        is_plain = all(node.reads is node.writes for node in nodes)
        for step in self._steps.of(rank):
            if step.op & MEMBER:
                self._join(items[-1], step, counts, flying)
            else:
                items.append(self._item(step, counts, flying))
                items[-1].is_plain = is_plain
        return items

    def _item(self, step: Step, counts: dict[Any, int], flying: dict[int, tuple[int, ...]]) -> Item:
        if step.kind in {Kind.WAIT, Kind.WAIT_MANY}:
            awaits = tuple(m for handle in step.handles for m in flying.pop(handle, ()))
            return Item(awaits=() if self._on_device else awaits, handles=step.handles)
        item = Item(handles=step.handles)
        if step.kind == Kind.BATCH:
            flying.update(dict.fromkeys(step.handles, ()))
            item.awaits = ()
        elif step.key is not None:
            match = self._match(item, step, counts)
            blocks = self._on_device or not step.op & ASYNC
            item.arrives, item.awaits = (match,), (match,) if blocks else ()
            flying.update(dict.fromkeys(step.handles, (match,)))
        return item

    def _join(
        self, item: Item, step: Step, counts: dict[Any, int], flying: dict[int, tuple[int, ...]]
    ) -> None:
        """Add a member to the batch it is launched with."""
        match = self._match(item, step, counts)
        item.arrives += (match,)
        for handle in item.handles:
            flying[handle] += (match,)
        if self._on_device or not item.handles:
            item.awaits += (match,)

    def _match(self, item: Item, step: Step, counts: dict[Any, int]) -> int:
        key: Any = step.key
        side: Any = step.key
        if step.key is not None and step.key[0] == "pair":
            key = (*step.key, step.detail[1]) if self._tags else step.key
            side = (key, step.detail[0])
        number = counts.get(side, 0)
        counts[side] = number + 1
        item.keys += (key,)
        item.steps += (step,)
        return self._matches.setdefault((key, number), len(self._matches))
