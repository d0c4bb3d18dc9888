"""Candidates that change the order on a rank: one action earlier or later, or two exchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.repair.dependence import may_swap, with_starts
from planguard.repair.proposal import Proposal, add, put, remove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.repair.document import Block


def moves(
    block: Block, around: range | None = None, reach: int | None = None
) -> Iterator[Proposal]:
    """Yield every move of one action past others of its list, and every exchange of two.

    Short moves come first, so that a long list costs no more than what is asked for.

    Args:
        block: The list.
        around: Indices between which things move; the whole list if None.
        reach: Longest move.
    """
    items = with_starts(block.items)
    places = range(len(items)) if around is None else around
    # Who can still pass everything up to the span that was looked at.
    goes_down, goes_up = set(places), set(places)
    for span in range(1, min(len(places) - 1, reach or len(places)) + 1):
        for first in places[:-span]:
            last = first + span
            free = (first in goes_down or last in goes_up) and may_swap(items[first], items[last])
            if not free:
                goes_down.discard(first)
                goes_up.discard(last)
            elif items[first] != items[last]:
                down, up = first in goes_down, last in goes_up
                yield from _pair(block, first, last, down=down, up=up)
        if not goes_down and not goes_up:
            return


def _pair(block: Block, first: int, last: int, *, down: bool, up: bool) -> Iterator[Proposal]:
    if up:
        yield _moved(block, last, first)
    if last > first + 1:
        if down:
            yield _moved(block, first, last)
        if down and up:
            yield _exchanged(block, first, last)


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
