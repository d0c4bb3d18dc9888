"""Places in a plan file: JSON paths of actions and their lines, found on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.errors import shorten
from planguard.plan import nodes as n

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Step = str | int
Steps = tuple[Step, ...]

MAX_KEY = 80
"""Longest object key that a path shows whole."""


def step(path: str, key: str) -> str:
    """Append an object key to a JSON path: ``$.ranks.2``, or ``$.ranks["pp=0"]``."""
    if 0 < len(key) <= MAX_KEY and all(c.isalnum() or c in "_-" for c in key) and key.isascii():
        return f"{path}.{key}"
    quoted = shorten(key, MAX_KEY).replace('"', '\\"')
    return f'{path}["{quoted}"]'


def render(steps: Iterable[Step]) -> str:
    """Return the JSON path of some steps: ``$.ranks.2.actions[18].peer``."""
    path = "$"
    for part in steps:
        path = f"{path}[{part}]" if isinstance(part, int) else step(path, part)
    return path


def find_node(actions: Sequence[Any], node: Any) -> Steps:
    """Return the steps from a program to one of its actions.

    Actions are compared by identity: equal actions may stand in many places.
    """
    return next((steps for steps, found in walk(actions) if found is node), ())


def walk(actions: Sequence[Any], prefix: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """Yield ``(steps, action)`` for every action of a program, batch members included."""
    for index, item in enumerate(actions):
        steps = (*prefix, index)
        if isinstance(item, list):
            yield from walk(item, steps)
            continue
        yield steps, item
        for field, inner in children(item):
            yield from walk(inner, (*steps, field))


def children(node: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the lists of actions inside an action, with the name of their field."""
    if isinstance(node, n.Repeat | n.Unordered):
        yield "body", node.body
    elif isinstance(node, n.Batch):
        yield "ops", node.ops
    elif isinstance(node, n.Threads):
        yield "threads", node.threads
    elif isinstance(node, n.Choice):
        yield "branches", node.branches


def line_of(data: bytes, steps: Sequence[Step]) -> int | None:
    """Return the 1-based line of a place in the text of a plan, or None if it is not there.

    Values before the place are skipped by the C scanner of ``json``, so the cost is that of
    parsing the text up to it.
    """
    from json import JSONDecoder
    from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]

    skip = JSONDecoder().scan_once  # type: ignore[attr-defined]
    blank = WHITESPACE.match
    text = data.decode()
    place = blank(text, 0).end()
    for part in steps:
        is_object = text[place] == "{"
        index = 0
        place = blank(text, place + 1).end()
        while text[place] not in "]}":
            key: Step = index
            if is_object:
                key, place = scanstring(text, place + 1)
                place = blank(text, blank(text, place).end() + 1).end()
            if key == part:
                break
            place = blank(text, skip(text, place)[1]).end()
            place = blank(text, place + (text[place] == ",")).end()
            index += 1
        else:
            return None
    return text.count("\n", 0, place) + 1
