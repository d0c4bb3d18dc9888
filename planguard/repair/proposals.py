"""All candidates of one edit, those close to what the findings name first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.repair.bags import orders
from planguard.repair.batches import batches
from planguard.repair.buffers import policies
from planguard.repair.dependence import works
from planguard.repair.document import Block
from planguard.repair.groups import separated
from planguard.repair.handles import handles
from planguard.repair.moves import moves
from planguard.repair.values import agreements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.pointers import Steps
    from planguard.repair.document import PlanText
    from planguard.repair.proposal import Proposal
    from planguard.verdict import Verdict

PREFERENCE = (
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
NEAR, SAME_LIST, FAR = range(3)


def near(text: PlanText, verdict: Verdict) -> list[Proposal]:
    """Return the single edits that touch an action of the findings, the gentlest first.

    Args:
        text: The plan.
        verdict: What is wrong with it.
    """
    core = text.core(verdict)
    found = _all(text, verdict, {place[:-1] for place in core})
    return sorted((one for one in found if _distance(one, core) == NEAR), key=_weight)


def far(text: PlanText, verdict: Verdict) -> list[Proposal]:
    """Return all other single edits, those in the lists of the findings first."""
    core = text.core(verdict)
    ranked = [(_distance(one, core), one) for one in _all(text, verdict)]
    ranked = [(distance, one) for distance, one in ranked if distance != NEAR]
    ranked.sort(key=lambda pair: (pair[0], _weight(pair[1])))
    return [one for _, one in ranked]


def _weight(one: Proposal) -> tuple[int, int, int]:
    # A long move is no smaller a change than another kind of edit next door.
    return (one.span - 1) // 3, PREFERENCE.index(one.kind), one.span


def _distance(one: Proposal, core: frozenset[Steps]) -> int:
    if one.touched & core or one.kind in {"launch", "bucket"}:
        return NEAR
    lists = {place[:-1] for place in core}
    return SAME_LIST if any(place[:-1] in lists for place in one.touched) else FAR


def _all(text: PlanText, verdict: Verdict, lists: set[Steps] | None = None) -> Iterator[Proposal]:
    """Yield every single edit, or those of some lists and of the plan as a whole."""
    yield from agreements(text, verdict)
    yield from policies(text)
    handle_names: dict[int, frozenset[str]] = {}
    for part in text.parts:
        inside = {part.steps} if isinstance(part, Block) else {(*part.steps, "body")}
        if lists is not None and not inside & lists and not _holds(part, lists):
            continue
        if part.program not in handle_names:
            handle_names[part.program] = frozenset(_names(text, part.program, "work"))
        if isinstance(part, Block):
            yield from batches(part)
            yield from moves(part)
            yield from handles(part, handle_names[part.program])
        else:
            yield from orders(part, frozenset(_names(text, part.program, "id")))
    yield from separated(text)


def _holds(part: Any, lists: set[Steps]) -> bool:
    """Tell whether an unordered block has an action of the findings in a chain of it."""
    if isinstance(part, Block):
        return False
    depth = len(part.steps) + 1
    return any(place[:depth] == (*part.steps, "body") for place in lists)


def _names(text: PlanText, program: int, field: str) -> Iterator[str]:
    """Yield the handles or ids of a program."""
    for part in text.parts:
        if part.program == program:
            for item in part.items:
                if isinstance(item, dict) and field in item:
                    yield from works(item) if field == "work" else [item[field]]
