"""All candidates of one edit, those close to what the findings name first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.repair.bags import orders
from planguard.repair.batches import batches
from planguard.repair.buffers import policies
from planguard.repair.document import Block
from planguard.repair.groups import separated
from planguard.repair.handles import handles
from planguard.repair.moves import moves
from planguard.repair.peers import addresses
from planguard.repair.values import agreements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.pointers import Steps
    from planguard.repair.document import PlanText
    from planguard.repair.proposal import Proposal
    from planguard.verdict import Verdict

PREFERENCE = (
    "peer",
    "agree",
    "launch",
    "order",
    "batch",
    "move",
    "async",
    "sync",
    "swap",
    "group",
    "bucket",
)
"""Kinds of repairs, those first that change least of what a program does and how fast."""
REACH = 24
"""How far from an action of the findings a change is still near."""


def near(text: PlanText, verdict: Verdict) -> Iterator[Proposal]:
    """Yield the single edits that touch an action of the findings, the gentlest first.

    Args:
        text: The plan.
        verdict: What is wrong with it.
    """
    core = text.core(verdict)
    found = [*agreements(text, verdict), *addresses(text, verdict), *policies(text)]
    inside: dict[Steps, list[int]] = {}
    for place in core:
        if isinstance(place[-1], int):
            inside.setdefault(place[:-1], []).append(place[-1])
    for part in text.parts:
        if isinstance(part, Block):
            for around in _windows(inside.get(part.steps, []), len(part.items)):
                found += _of_block(text, part, around, REACH)
        elif any(place[: len(part.steps)] == part.steps for place in core):
            found += orders(part, text.names(part.program, "id"))
    yield from sorted((one for one in found if _is_near(one, core)), key=_weight)
    # Last: it looks at every action of the plan.
    yield from sorted(separated(text, core), key=_weight)


def far(text: PlanText, verdict: Verdict) -> Iterator[Proposal]:
    """Yield all other single edits, those in the lists of the findings first, lazily."""
    core = text.core(verdict)
    lists = {place[:-1] for place in core}
    for part in sorted(text.parts, key=lambda part: part.steps not in lists):
        if isinstance(part, Block):
            found = _of_block(text, part, None, None)
            yield from (one for one in found if one.span > REACH or not one.touched & core)
        else:
            found = orders(part, text.names(part.program, "id"))
            yield from (one for one in found if not one.touched & core)
    yield from (one for one in separated(text) if not one.touched & core)


def _of_block(
    text: PlanText, part: Block, around: range | None, reach: int | None
) -> Iterator[Proposal]:
    yield from batches(part, around)
    yield from moves(part, around, reach)
    yield from handles(part, text.names(part.program, "work"), around, reach)


def _windows(places: list[int], count: int) -> Iterator[range]:
    """Yield the surroundings of some indices of a list, joined where they overlap."""
    joined: list[tuple[int, int]] = []
    for place in sorted(places):
        start, end = max(0, place - REACH), min(count, place + REACH + 1)
        if joined and start <= joined[-1][1]:
            start, _ = joined.pop()
        joined.append((start, end))
    yield from (range(start, end) for start, end in joined)


def _weight(one: Proposal) -> tuple[int, int, int]:
    # A long move is no smaller a change than another kind of edit next door.
    return (one.span - 1) // 3, PREFERENCE.index(one.kind), one.span


def _is_near(one: Proposal, core: frozenset[Steps]) -> bool:
    return bool(one.touched & core) or one.kind in {"launch", "bucket"}
