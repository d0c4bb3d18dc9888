"""Candidates that change the order on a rank: one action earlier or later, or two exchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.repair.dependence import may_swap, with_starts
from planguard.repair.proposal import Proposal, add, put, remove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.repair.document import Block


def moves(block: Block) -> Iterator[Proposal]:
    """Yield every move of one action past others of its list, and every exchange of two."""
    items = with_starts(block.items)
    count = len(items)
    for first in range(count):
        late = _reach(items, first, 1)
        for last in range(first + 1, count):
            down, up = last <= late, first >= _reach(items, last, -1)
            if not (down or up):
                break
            if items[first] == items[last]:
                continue
            if up:
                yield _moved(block, last, first)
            if down and last > first + 1:
                yield _moved(block, first, last)
            if up and down and last > first + 1:
                yield _exchanged(block, first, last)


def _reach(items: list[object], start: int, way: int) -> int:
    """Return how far an action can go in one direction past what it does not depend on."""
    at = start
    while 0 <= at + way < len(items):
        pair = (items[at + way], items[start]) if way < 0 else (items[start], items[at + way])
        if not may_swap(*pair):
            break
        at += way
    return at


def _moved(block: Block, source: int, target: int) -> Proposal:
    """Issue one action where another stands; those between make room."""
    text = "issue {0} before {1}" if target < source else "issue {0} after {1}"
    taken = block.items[source]
    return Proposal(
        "move",
        (remove(*block.at(source)), add(*block.at(target), value=taken)),
        frozenset((block.at(source), block.at(target))),
        text,
        (block.at(source), block.at(target)),
        abs(source - target),
    )


def _exchanged(block: Block, first: int, last: int) -> Proposal:
    one, other = block.at(first), block.at(last)
    return Proposal(
        "swap",
        (put(*one, value=block.items[last]), put(*other, value=block.items[first])),
        frozenset((one, other)),
        "exchange {0} and {1}",
        (one, other),
        last - first,
    )
