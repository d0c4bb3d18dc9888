"""JSON paths of actions, found on demand by walking one program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.plan import nodes as n

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def find_node(actions: Sequence[Any], node: Any) -> str:
    """Return the path of an action below its program, for example ``[3].body[0]``.

    Actions are compared by identity: equal actions may stand in many places.
    """
    return next((path for path, found in paths(actions) if found is node), "")


def paths(actions: Sequence[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ``(path, action)`` for every action of a program, batch members included."""
    for index, item in enumerate(actions):
        path = f"{prefix}[{index}]"
        if isinstance(item, list):
            yield from paths(item, path)
            continue
        yield path, item
        for field, inner in children(item):
            yield from paths(inner, f"{path}.{field}")


def children(node: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the lists of actions inside an action, with the path of each."""
    if isinstance(node, n.Repeat | n.Unordered):
        yield "body", node.body
    elif isinstance(node, n.Batch):
        yield "ops", node.ops
    elif isinstance(node, n.Threads):
        yield "threads", node.threads
    elif isinstance(node, n.Choice):
        yield "branches", node.branches
