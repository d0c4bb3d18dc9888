"""Candidates that take freedom away: an ordering edge inside a block, or the block as a chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.repair.dependence import COMMUNICATION
from planguard.repair.proposal import Proposal, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.repair.document import Bag
    from planguard.verdict import Edit


def orders(bag: Bag, ids: frozenset[str]) -> Iterator[Proposal]:
    """Yield the block as one chain, and every edge between two items that are not in order yet.

    Args:
        bag: The block.
        ids: Ids in use anywhere in the program.
    """
    body = bag.action["body"]
    below = _before(body)
    for first in range(len(body)):
        for last in range(len(body)):
            free = first != last and last not in below[first] and first not in below[last]
            if free and _communicates(body[first]) and _communicates(body[last]):
                yield _edge(bag, first, last, ids)
    order = _sorted(below)
    if len(body) > 1 and order is not None:
        chain = [leaf for at in order for leaf in _chain(body[at])]
        places = tuple((*bag.steps, "body", at) for at in range(len(body)))
        yield Proposal(
            "order",
            (put(*bag.steps, "body", value=[[_free(leaf) for leaf in chain]]),),
            frozenset(
                (*place, n) if isinstance(body[at], list) else place
                for at, place in enumerate(places)
                for n in range(len(_chain(body[at])))
            ),
            "issue the items of {0} in one order",
            (bag.steps,),
            len(body),
        )


def _chain(item: Any) -> list[dict[str, Any]]:
    return list(item) if isinstance(item, list) else [item]


def _free(leaf: dict[str, Any]) -> dict[str, Any]:
    """Return an action without ``after``: its place in the chain says the same."""
    return {key: value for key, value in leaf.items() if key != "after"}


def _communicates(item: Any) -> bool:
    return any(leaf["op"] in COMMUNICATION for leaf in _chain(item))


def _before(body: list[Any]) -> list[set[int]]:
    """Return, for every item, the items that ``after`` puts in front of it."""
    owner = {
        leaf["id"]: at for at, item in enumerate(body) for leaf in _chain(item) if "id" in leaf
    }
    direct = [
        {owner[name] for leaf in _chain(item) for name in leaf.get("after", ()) if name in owner}
        - {at}
        for at, item in enumerate(body)
    ]
    closed = [set(found) for found in direct]
    for _ in body:
        for found in closed:
            found.update(*(closed[other] for other in tuple(found)))
    return closed


def _sorted(below: list[set[int]]) -> list[int] | None:
    """Return the items in an order that ``after`` allows, as they are written where it is free."""
    order: list[int] = []
    while len(order) < len(below):
        at = next(
            (n for n, found in enumerate(below) if n not in order and found <= set(order)), None
        )
        if at is None:
            return None  # chains that wait for each other's middle: no order of whole items
        order.append(at)
    return order


def _edge(bag: Bag, first: int, last: int, ids: frozenset[str]) -> Proposal:
    """Issue the last action of one item before the first action of another."""
    body = bag.action["body"]
    source, target = _end(bag, first, -1), _end(bag, last, 0)
    before, after = _chain(body[first])[-1], _chain(body[last])[0]
    edits: list[Edit] = []
    name = before.get("id")
    if name is None:
        name = next(f"a{n}" for n in range(len(ids) + 1) if f"a{n}" not in ids)
        edits.append(put(*source, value={**before, "id": name}))
    edits.append(put(*target, value={**after, "after": [*after.get("after", ()), name]}))
    return Proposal(
        "order",
        tuple(edits),
        frozenset((source, target)),
        "issue {0} before {1}",
        (source, target),
        abs(first - last),
    )


def _end(bag: Bag, at: int, end: int) -> tuple[Any, ...]:
    item = bag.action["body"][at]
    place = (*bag.steps, "body", at)
    return (*place, len(item) - 1 if end else 0) if isinstance(item, list) else place
