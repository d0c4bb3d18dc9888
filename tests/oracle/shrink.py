"""Makes a plan on which something holds as small as it gets: what people look at."""

from __future__ import annotations

import copy
from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Item = dict[str, Any]
_INNER = {
    "unordered": "body",
    "threads": "threads",
    "choice": "branches",
    "repeat": "body",
    "batch": "ops",
    "coalesced": "ops",
}
_NEEDED = frozenset({"op", "peer", "root", "kind", "event", "times", "branches", "body", "threads"})
_FLAT = {"repeat", "unordered"}


def shrink(document: Item, holds: Callable[[Item], bool]) -> Item:
    """Give a smaller plan on which a property holds, of which no single part can be left out.

    Args:
        document: a plan on which it holds.
        holds: the property; a plan on which it raises is one on which it does not hold.
    """
    found = copy.deepcopy(document)
    while True:
        for smaller in _smaller(found):
            if _keeps(smaller, holds):
                found = smaller
                break
        else:
            return found


def _keeps(document: Item, holds: Callable[[Item], bool]) -> bool:
    try:
        return holds(copy.deepcopy(document))
    except Exception:  # noqa: BLE001  whatever is wrong with it, it does not hold there
        return False


def _smaller(document: Item) -> Iterator[Item]:
    """Yield plans with one part less, the largest parts first."""
    for name in ("groups", "fusion"):
        for key in list(document.get(name, [])) if name == "groups" else ():
            yield _changed(document, lambda plan, n=name, k=key: plan[n].pop(k))
    if document.get("fusion"):
        yield _changed(document, lambda plan: plan.pop("fusion"))
    yield from _without_rank(document)
    for path in _lists(document):
        chain = _at(document, path)
        for place in range(len(chain)):
            yield _changed(document, lambda plan, p=path, a=place: _at(plan, p).pop(a))
    for path in _lists(document):
        for place, item in enumerate(_at(document, path)):
            for change in _simpler(item):
                yield _changed(document, _replaced(path, place, change))
    yield from _pairs(document)


def _pairs(document: Item) -> Iterator[Item]:
    """Yield the plan without one action each of two lists: two ends of a message, say."""
    paths = _lists(document)
    for one, other in combinations(paths, 2):
        if other[: len(one)] == one or one[: len(other)] == other:
            continue
        for first in range(len(_at(document, one))):
            for second in range(len(_at(document, other))):

                def change(plan: Item, cut: Any = ((other, second), (one, first))) -> None:
                    for path, place in cut:
                        _at(plan, path).pop(place)

                yield _changed(document, change)


def _replaced(path: tuple[Any, ...], place: int, new: list[Any]) -> Callable[[Item], Any]:
    def change(plan: Item) -> None:
        _at(plan, path)[place : place + 1] = copy.deepcopy(new)

    return change


def _changed(document: Item, change: Callable[[Item], Any]) -> Item:
    plan = copy.deepcopy(document)
    change(plan)
    return plan


def _at(document: Item, path: tuple[Any, ...]) -> list[Any]:
    value: Any = document
    for step in path:
        value = value[step]
    found: list[Any] = value
    return found


def _lists(document: Item) -> list[tuple[Any, ...]]:
    """List where actions stand, outer lists first."""
    todo: list[tuple[Any, ...]] = [
        ("ranks", key, "actions") for key, body in document["ranks"].items() if "actions" in body
    ]
    todo += [("templates", name) for name in document.get("templates", {})]
    for path in todo:
        for place, item in enumerate(_at(document, path)):
            if isinstance(item, list):
                todo.append((*path, place))
            elif item.get("op") in _INNER:
                todo.append((*path, place, _INNER[item["op"]]))
    return todo


def _simpler(item: Any) -> Iterator[list[Any]]:
    """Yield what may stand in the place of an item: its content, or the item with a field less."""
    if isinstance(item, list):
        yield item
        return
    kind = item.get("op", "")
    inner = _INNER.get(kind)
    if inner in item and kind in _FLAT:
        yield [
            one for entry in item[inner] for one in (entry if isinstance(entry, list) else [entry])
        ]
    elif inner in item and kind in {"choice", "threads"}:
        yield from item[inner]
    if item.get("times", 1) > 1:
        yield [{**item, "times": item["times"] - 1}]
    for name in item:
        if name not in _NEEDED:
            yield [{key: value for key, value in item.items() if key != name}]
    if isinstance(item.get("work"), list) and len(item["work"]) > 1:
        for name in item["work"]:
            yield [{**item, "work": [other for other in item["work"] if other != name]}]
    if "count" in item and item["count"] not in (1, 2):
        yield [{**item, "count": 1}]


def _without_rank(document: Item) -> Iterator[Item]:
    """Yield the plan without its last rank."""
    last = document["world_size"] - 1
    if last < 1 or str(last) not in document["ranks"]:
        return
    plan = copy.deepcopy(document)
    plan["world_size"] = last
    del plan["ranks"][str(last)]
    for group in plan.get("groups", {}).values():
        if "ranks" in group:
            group["ranks"] = [rank for rank in group["ranks"] if rank != last]
    yield plan
