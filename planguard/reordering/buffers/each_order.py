"""Blocks of open order that touch fused buffers, in every order: each is a plan of its own.

Where no rule decides a plan, its blocks may be few and small. An execution picks one order of each
block, independently on each rank, and is an execution of the plan in which those blocks are written
in these orders; so all these plans together have the executions of the plan. In each of them
members, and waits for them, stand in one order, and threads that hold some stand in no block.

The program of a rank that sends its order to others stays as it is: what it may send are all the
orders that its blocks admit, whichever comes up in the execution.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.errors import OrderError
from planguard.execution.findings.reason import UndecidedError, out_of_time
from planguard.execution.running.expand import expand
from planguard.options import running
from planguard.plan.fixed import AT, written
from planguard.plan.vocabulary import HANDLES, ORDER_BLOCKS
from planguard.reordering.blocks import Block, Leaf, count_extensions, taken
from planguard.reordering.branches.assignments import flat_tree, leaves
from planguard.reordering.buffers.findings import moved
from planguard.reordering.buffers.identity import identities
from planguard.reordering.buffers.members import buffers_of, homes_of
from planguard.reordering.cases.together import Part, combined, shown_of, together
from planguard.reordering.join import NAMELESS
from planguard.reordering.threads.orders import orders_of_block
from planguard.semantics.model import find_model
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan
    from planguard.reordering.cases.together import Decide
    from planguard.verdict import Verdict

CODE = "PG102"
LIMIT = 256
"""Most combinations of orders that are decided."""
SHARE = 0.25
"""Most of the time left that they may take: others, of another branch for example, need some."""


def over_orders_of_blocks(
    plan: Plan, model: str, options: CheckOptions, decide: Decide, refused: UndecidedError
) -> Verdict:
    """Decide a plan over all orders of its blocks with members, else over those of all blocks.

    Args:
        plan: A plan with ``fusion`` that no rule decides.
        model: Name of the execution model.
        options: Options; ``budget`` bounds the work in seconds.
        decide: Decides the plan of an order.
        refused: Why no rule decides it.

    Raises:
        UndecidedError: ``refused``, where there are no such blocks or too many orders; or calls in
            them that cannot be told apart.
    """
    deadline = running(options).deadline
    if deadline.expired():
        raise refused
    begin = deadline.left()
    flat = flat_tree(plan, expand(plan))
    blocks = _Blocks(flat)
    ways = blocks.ways()
    if ways is None:
        raise refused
    rules = find_model(model)
    rows = [list(blocks.parts(rank)) for rank in range(plan.world_size)]
    unnamed, given = identities(plan, rows, blocks.buffers, blocks.homes, use_tags=rules.use_tags)
    labels = {(rank, leaf.fields[AT]): label for rank, leaf, label in given}
    parts: list[Part] = []
    for chosen in itertools.product(*ways):
        left = deadline.left()
        if begin is not None and (left is None or left < begin * (1 - SHARE)):
            raise UndecidedError(out_of_time(f" after {len(parts):,} combinations of orders"))
        ranks = {str(rank): _named(items, rank, labels) for rank, items in enumerate(chosen)}
        try:
            ordered = written(flat, ranks)
        except OrderError:
            raise refused from None
        verdict = decide(ordered.plan, brief=True)
        part = Part(ordered, verdict, differs=True)
        if part.outcome is Outcome.UNKNOWN and all(one.is_safe for one in parts):
            # Others could only say that something goes wrong besides.
            return moved(plan, ordered, verdict)
        parts.append(part)
    outcome = together(parts)
    if unnamed is not None and outcome not in NAMELESS:
        raise UndecidedError(unnamed)
    shown = shown_of(parts, outcome)
    found = combined(plan, parts, decide(shown.ordered.plan, brief=False), shown, CODE)
    return replace(found, evidence=replace(found.evidence, schedules=len(parts)))


class _Blocks:
    """The blocks of a plan whose orders are picked.

    Attributes:
        buffers: The fused buffers.
        homes: Where their members are.
    """

    def __init__(self, flat: dict[str, Any]) -> None:
        self.buffers = buffers_of(enumerate(flat["fusion"]))
        self.homes = homes_of(self.buffers)
        count = len(flat["ranks"])
        self.programs = [flat["ranks"][str(rank)]["actions"] for rank in range(count)]
        groups = {"world": range(count)}
        groups |= {name: one["ranks"] for name, one in flat.get("groups", {}).items()}
        self.senders = {
            groups[one.group][0] for one in self.buffers if one.coordination == "rank0-broadcast"
        }
        self.works = [self._works(items) for items in self.programs]
        touching = [self._touching(rank) for rank in range(count)]
        self.wanted: list[set[int]] = touching if any(touching) else [
            {block[AT] for block in _outermost(items)} if rank not in self.senders else set()
            for rank, items in enumerate(self.programs)
        ]  # fmt: skip

    def _works(self, items: list[Any]) -> set[str]:
        return {
            one["work"]
            for one in leaves(items)
            if self._is_member(one) and isinstance(one.get("work"), str)
        }

    def _is_member(self, fields: dict[str, Any]) -> bool:
        return (fields.get("group", "world"), fields.get("id")) in self.homes

    def _touching(self, rank: int) -> set[int]:
        """Return the blocks of a rank in which members, or waits for them, stand."""
        if rank in self.senders:
            return set()
        return {
            block[AT]
            for block in _outermost(self.programs[rank])
            if any(self._touches(one, rank) for one in leaves([block]))
        }

    def _touches(self, fields: dict[str, Any], rank: int) -> bool:
        work = fields.get("work", []) if fields["op"] in HANDLES else []
        named = [work] if isinstance(work, str) else work
        return self._is_member(fields) or not self.works[rank].isdisjoint(named)

    def ways(self) -> list[list[list[Any]]] | None:
        """Return the programs of each rank; None where there is one of each, or too many."""
        for rank, items in enumerate(self.programs):
            for block in _outermost(items):
                if block[AT] in self.wanted[rank] and _count(block) > LIMIT:
                    return None
        if not any(self.wanted):
            return None
        ways: list[list[list[Any]]] = []
        for rank, items in enumerate(self.programs):
            mine = list(itertools.islice(self._programs(items, rank), LIMIT + 1))
            ways.append(mine)
            if math.prod(map(len, ways)) > LIMIT:
                return None
        return ways

    def _programs(self, items: list[Any], rank: int) -> Iterator[list[Any]]:
        """Yield some items with the blocks that are wanted in every order."""
        each = [list(self._ways(item, rank)) for item in items]
        for chosen in itertools.product(*each):
            yield list(itertools.chain.from_iterable(chosen))

    def _ways(self, item: dict[str, Any], rank: int) -> Iterator[list[Any]]:
        if item["op"] == "threads":
            each = [list(self._programs(thread, rank)) for thread in item["threads"]]
            for threads in itertools.product(*each):
                yield [{**item, "threads": list(threads)}]
        elif item[AT] in self.wanted[rank]:
            yield from orders_of_block(item)
        else:
            yield [item]

    def parts(self, rank: int) -> Iterator[Leaf | Block]:
        """Yield the calls of a rank; those of a block whose order is picked as a block."""
        yield from self._parts(self.programs[rank], rank)

    def _parts(self, items: list[Any], rank: int) -> Iterator[Leaf | Block]:
        for item in items:
            if item["op"] == "threads":
                for thread in item["threads"]:
                    yield from self._parts(thread, rank)
                continue
            part = taken(item)
            if isinstance(part, Block) and item[AT] not in self.wanted[rank]:
                yield from part.leaves  # identified with the plan of an order
            else:
                yield part


def _count(block: dict[str, Any]) -> int:
    """Return at least how many orders a block has, threads in it taken for chains."""
    part = taken(block)
    return count_extensions(part, LIMIT + 1) if isinstance(part, Block) else 1


def _outermost(items: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the blocks of open order that no other one holds."""
    for item in items:
        if item["op"] == "threads":
            for thread in item["threads"]:
                yield from _outermost(thread)
        elif item["op"] in ORDER_BLOCKS:
            yield item


def _named(items: list[Any], rank: int, labels: dict[tuple[int, int], str]) -> list[Any]:
    """Return items with the labels that calls get."""
    return _mapped(items, lambda one: _with_label(one, labels.get((rank, one[AT]))))


def _with_label(fields: dict[str, Any], label: str | None) -> dict[str, Any]:
    return fields if label is None else {**fields, "label": label}


def _mapped(items: list[Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> list[Any]:
    out: list[Any] = []
    for item in items:
        if isinstance(item, list):
            out.append(_mapped(item, change))
        elif item["op"] in ORDER_BLOCKS:
            name = ORDER_BLOCKS[item["op"]]
            out.append({**item, name: _mapped(item[name], change)})
        else:
            out.append(change(item))
    return out
