"""What stands before all open order, taken off: a closed and safe prefix decides nothing.

A plan that begins with P, which is safe and in which every message and every round begins and
ends, and goes on with R, ends in every order as R alone does: by confluence the run that takes P
to its end first ends like all others, and finds every counter level (docs/explanation/choices.md,
stretches). So communicators that are created before the first block hold up the host there and
nowhere else, and the rest is decided without them.

Under ``nccl-lazy`` the rest must create nothing: every communicator it uses was made or used in P,
and no message of it goes alone, which would make a communicator of its pair.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError
from planguard.execution.decide import Decider
from planguard.execution.running.expand import expand
from planguard.plan.vocabulary import (
    COLLECTIVE_KIND,
    CREATIONS,
    DEVICE,
    LAUNCHES,
    MESSAGES,
    STRAYING,
)
from planguard.reordering.blocks import Block, RankOrder
from planguard.reordering.explorer import put_in_order
from planguard.reordering.orders.weak_words import InapplicableError
from planguard.semantics.model import strict
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.execution.running.executor import Execution
    from planguard.reordering.blocks import Leaf
    from planguard.reordering.explorer import Choice, Task

_SILENT = MESSAGES | DEVICE | {"wait"}
"""Operations that use no communicator of a group."""


def rest_of(task: Task, firsts: Sequence[Choice]) -> tuple[Execution, list[RankOrder]]:
    """Return a strict run of what follows a closed and safe prefix, and its orders taken apart.

    The blocks are those of the whole plan, in the same order.

    Args:
        task: The plan.
        firsts: The order of its blocks that is run.

    Raises:
        InapplicableError: There is no such prefix, or the rest depends on it.
    """
    why = "the host of a rank is held up apart from its stream"
    for cuts in _cuts(task.orders):
        found = _cut(task, cuts, firsts)
        if found is not None:
            return found
    raise InapplicableError(why)


def _cuts(orders: Sequence[RankOrder]) -> Iterator[list[int]]:
    """Yield how many parts of every rank are the prefix: up to the last creation, up to a block."""
    blocks = [
        next((at for at, part in enumerate(o.parts) if _is_open(part)), len(o.parts))
        for o in orders
    ]
    made = [
        max((at + 1 for at, part in enumerate(o.parts[:end]) if _op(part) in CREATIONS), default=0)
        for o, end in zip(orders, blocks, strict=True)
    ]
    yield made
    yield blocks


def _is_open(part: Leaf | Block) -> bool:
    return isinstance(part, Block) and len(part.leaves) > 1


def _op(part: Leaf | Block) -> str:
    return "" if isinstance(part, Block) else str(part.fields["op"])


def _cut(
    task: Task, cuts: list[int], firsts: Sequence[Choice]
) -> tuple[Execution, list[RankOrder]] | None:
    pairs = list(zip(task.orders, cuts, strict=True))
    heads = [RankOrder(order.rank, order.parts[:cut]) for order, cut in pairs]
    tails = [RankOrder(order.rank, order.parts[cut:]) for order, cut in pairs]
    if any(isinstance(part, Block) for head in heads for part in head.parts):
        return None  # blocks of one action: the blocks of the rest would not be those of the plan
    if any(_op(part) in STRAYING - CREATIONS for head in heads for part in head.parts):
        return None
    if any(fields["op"] in CREATIONS for fields in _calls(tails)):
        return None
    model = task.model
    if model.lazy_init:
        if not _creates_nothing(heads, tails):
            return None
        model = replace(model, lazy_init=False)
    try:
        head = put_in_order(task.taking, heads, [()] * len(heads)).plan
        tail = put_in_order(task.taking, tails, firsts).plan
    except PlanError:
        return None  # a handle of the prefix is waited for behind it
    columns = expand(head)
    if not is_closed(columns):
        return None
    if Decider(head, columns, task.model, task.options).decide().outcome is not Outcome.SAFE:
        return None
    decider = Decider(tail, expand(tail), model, task.options)
    return decider.run(strict(model), origins=True), tails


def _calls(orders: Sequence[RankOrder]) -> Iterator[dict[str, Any]]:
    """Yield every action of some programs."""
    for order in orders:
        for part in order.parts:
            for leaf in part.leaves if isinstance(part, Block) else (part,):
                yield leaf.fields


def _creates_nothing(heads: Sequence[RankOrder], tails: Sequence[RankOrder]) -> bool:
    """Tell whether every communicator that the rest uses exists behind the prefix."""
    for head, tail in zip(heads, tails, strict=True):
        made = {g for fields in _calls([head]) if _creates(fields) for g in _groups(fields)}
        for fields in _calls([tail]):
            if fields["op"] in MESSAGES or not _groups(fields) <= made:
                return False
    return True


def _creates(fields: dict[str, Any]) -> bool:
    """Tell whether a call makes the communicator it uses, where it is the first to use it."""
    return fields["op"] in COLLECTIVE_KIND or fields["op"] in LAUNCHES | {"init"}


def _groups(fields: dict[str, Any]) -> set[str]:
    """Return the communicators of a call that is no message on its own."""
    if fields["op"] in _SILENT:
        return set()
    if fields["op"] == "batch":
        own = fields.get("group", "world")
        return {str(part.get("group", own)) for part in fields["ops"]}
    return {str(fields.get("group", "world"))}


def is_closed(columns: Any) -> bool:
    """Tell whether every message and every round of a plan begins and ends in it."""
    if columns.has_any_source or columns.has_any_tag:
        return False
    if list(columns.send_count) != list(columns.recv_count):
        return False
    counts: dict[int, set[int]] = {}
    for slot, ginst in enumerate(columns.slot_ginst):
        counts.setdefault(ginst, set()).add(columns.slot_count[slot])
    return all(len(found) == 1 for found in counts.values())
