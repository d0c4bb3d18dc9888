"""Candidates that let a call return at once and wait later, or make it wait at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import BLOCKING, MESSAGES, MPI_ONLY, RECEIVES, ROUNDS, is_async
from planguard.repair.batches import dropped, waits_of
from planguard.repair.dependence import may_swap, post_may_pass, wait_may_pass, with_starts, works
from planguard.repair.proposal import Proposal, add, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.repair.document import Block

_MPI_ONLY = {row.name for row in MPI_ONLY}


def handles(
    block: Block,
    taken: frozenset[str],
    around: range | None = None,
    reach: int | None = None,
) -> Iterator[Proposal]:
    """Yield every call of a list made asynchronous or synchronous.

    Args:
        block: The list.
        taken: Handles in use anywhere in the program.
        around: Indices of the calls; the whole list if None.
        reach: How far a call and its wait may be apart.
    """
    items = with_starts(block.items)
    name = next(f"w{n}" for n in range(len(taken) + 1) if f"w{n}" not in taken)
    places = range(len(items)) if around is None else around
    longest = len(items) if reach is None else reach
    for at in places:
        item = items[at]
        if not isinstance(item, dict):
            continue
        if item["op"] == "drop":
            yield _waited(block, at)
        elif is_async(item):
            found = _synchronous(block, at)
            if found is not None:
                yield found
        elif item["op"] in MESSAGES or item["op"] in ROUNDS - _MPI_ONLY:
            yield from _later(block, items, at, name, min(len(items), at + longest + 1))
            yield from _earlier(block, items, at, name, max(-1, at - longest - 1))


def _started(item: dict[str, Any], work: str) -> dict[str, Any]:
    if item["op"] in MESSAGES:
        return {**item, "op": "i" + item["op"], "work": work}
    return {**item, "async": True, "work": work}


def _later(block: Block, items: list[Any], at: int, work: str, end: int) -> Iterator[Proposal]:
    """Start it where it stands and wait after a later action."""
    for last in range(at + 1, end):
        if not wait_may_pass(items[at], items[last]):
            return
        yield Proposal(
            "async",
            (
                put(*block.at(at), value=_started(block.items[at], work)),
                add(*block.at(last + 1), value={"op": "wait", "work": work}),
            ),
            frozenset((block.at(at), block.at(last))),
            "let {0} return at once, and wait for it after {1}",
            (block.at(at), block.at(last)),
            last - at,
        )


def _earlier(block: Block, items: list[Any], at: int, work: str, end: int) -> Iterator[Proposal]:
    """Start it before an earlier action and wait where it stands."""
    passes = post_may_pass if items[at]["op"] in RECEIVES else may_swap
    for first in range(at - 1, end, -1):
        if not passes(items[first], items[at]):
            return
        yield Proposal(
            "async",
            (
                put(*block.at(at), value={"op": "wait", "work": work}),
                add(*block.at(first), value=_started(block.items[at], work)),
            ),
            frozenset((block.at(at), block.at(first))),
            "post {0} before {1}, and wait for it where it stands now",
            (block.at(at), block.at(first)),
            at - first,
        )


def _synchronous(block: Block, at: int) -> Proposal | None:
    """Wait for a call where it is made."""
    item = block.items[at]
    waits = waits_of(block.items, at + 1, works(item))
    if waits is None:
        return None
    plain = {key: value for key, value in item.items() if key not in {"async", "work"}}
    if item["op"] in BLOCKING:
        plain["op"] = item["op"][1:]
    edits = [*dropped(block, waits, None), put(*block.at(at), value=plain)]
    touched = {block.at(at), *(block.at(place) for place, _ in waits)}
    text = "wait for {0} where it is called"
    return Proposal("sync", tuple(edits), frozenset(touched), text, (block.at(at),))


def _waited(block: Block, at: int) -> Proposal:
    """Wait for a handle instead of letting it die."""
    wait = {**block.items[at], "op": "wait"}
    place = block.at(at)
    text = "keep the handle and wait for it instead of {0}"
    return Proposal("sync", (put(*place, value=wait),), frozenset((place,)), text, (place,))
