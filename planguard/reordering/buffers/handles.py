"""Handles of members: a name that a program starts twice is a handle of its own each time.

A name may be bound again once it was waited for, as it is in every iteration of a loop. Which call
a wait means is told by what was started last in front of it; the players know a member by the name
of its handle alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.plan.vocabulary import HANDLES, OPEN_BLOCKS
from planguard.reordering.branches.assignments import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def with_own_handles(
    items: list[Any], is_member: Callable[[dict[str, Any]], bool]
) -> tuple[list[Any], bool]:
    """Return a rank program in which no other call starts the handle of a member.

    Args:
        items: Flat actions and blocks; an item with ``nodes`` stands for actions in a row.
        is_member: Whether an action is a member of a fused buffer.

    Returns:
        The program, and whether a handle was named anew.
    """
    mine: set[str] = set()
    starts: Counter[str] = Counter()
    for fields in leaves(items):
        for name in _started(fields):
            starts[name] += 1
            if is_member(fields):
                mine.add(name)
    twice = {name for name in mine if starts[name] > 1}
    if not twice:
        return items, False
    return _Naming(twice, set(starts), is_member).items(items), True


def _started(fields: dict[str, Any]) -> Iterator[str]:
    """Yield the handles that an action starts, or those of actions in a row."""
    if "nodes" in fields:
        for node in fields["nodes"]:
            for one in (node, *getattr(node, "ops", ())):
                work = getattr(one, "work", UNSET)
                if isinstance(work, str):
                    yield work
    elif fields["op"] not in HANDLES:
        for one in (fields, *fields.get("ops", ())):
            if isinstance(one.get("work"), str):
                yield one["work"]


class _Naming:
    """Names the handles of members anew, along the written order."""

    def __init__(
        self, twice: set[str], known: set[str], is_member: Callable[[dict[str, Any]], bool]
    ) -> None:
        self.twice, self.known, self.is_member = twice, known, is_member
        self.now: dict[str, str] = {}

    def items(self, items: Sequence[Any]) -> list[Any]:
        return [self._items_of(item) for item in items]

    def _items_of(self, item: Any) -> Any:
        if isinstance(item, list):
            return self.items(item)
        inner = OPEN_BLOCKS.get(item["op"])
        if inner:
            return {**item, inner: self.items(item[inner])}
        if item["op"] in HANDLES:
            return self._named(item)
        for name in self.twice.intersection(_started(item)):
            self.now.pop(name, None)
            if self.is_member(item):
                self.now[name] = self._new(f"{name} of {item['id']}")
                item = {**item, "work": self.now[name]}
        return item

    def _named(self, item: dict[str, Any]) -> dict[str, Any]:
        work = item.get("work", [])
        if isinstance(work, str):
            return {**item, "work": self.now.get(work, work)} if work in self.now else item
        if self.now.keys().isdisjoint(work):
            return item
        return {**item, "work": [self.now.get(name, name) for name in work]}

    def _new(self, name: str) -> str:
        while name in self.known:
            name += "'"
        self.known.add(name)
        return name
