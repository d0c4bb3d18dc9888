"""Who waits for whom, as a graph: its circles, and the shortest one through a node.

The one place for both: what is stuck in an execution, what open orders may get stuck, and what a
recorded or a running job stands in are graphs of their own, and circles in all of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


def circles(waits: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Return the strongly connected components that contain a cycle, in a fixed order.

    Args:
        waits: Whom every node waits for; who is not a key waits for nobody.
    """
    nodes = list(waits)
    number = {node: at for at, node in enumerate(nodes)}
    edges = [[number[one] for one in waits[node] if one in number] for node in nodes]
    return [[nodes[at] for at in part] for part in components(edges)]


def components(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected components that contain a cycle (Tarjan 1972).

    Iterative: a chain of waits is as long as a job, which recursion is not.

    Args:
        edges: Successors of the nodes 0, 1, ...
    """
    size = len(edges)
    index, low = [0] * size, [0] * size
    on_stack = bytearray(size)
    stack: list[int] = []
    found: list[list[int]] = []
    counter = 0
    for root in range(size):
        if index[root]:
            continue
        counter += 1
        index[root] = low[root] = counter
        stack.append(root)
        on_stack[root] = 1
        path, turn = [root], [iter(edges[root])]
        while path:
            node = path[-1]
            for target in turn[-1]:
                if not index[target]:
                    counter += 1
                    index[target] = low[target] = counter
                    stack.append(target)
                    on_stack[target] = 1
                    path.append(target)
                    turn.append(iter(edges[target]))
                    break
                if on_stack[target] and index[target] < low[node]:
                    low[node] = index[target]
            else:
                path.pop()
                turn.pop()
                if path and low[node] < low[path[-1]]:
                    low[path[-1]] = low[node]
                if low[node] == index[node]:
                    part = _leave(node, stack, on_stack)
                    if len(part) > 1 or node in edges[node]:
                        found.append(part)
    return found


def _leave(node: int, stack: list[int], on_stack: bytearray) -> list[int]:
    """Take one component off the stack."""
    part: list[int] = []
    while not part or part[-1] != node:
        part.append(stack.pop())
        on_stack[part[-1]] = 0
    return part


def shortest_through(
    start: int, waits: Mapping[int, Iterable[int]], inside: Collection[int]
) -> list[int]:
    """Return a shortest cycle through a node, from that node on; empty if there is none.

    Args:
        start: The node.
        waits: Whom every node waits for.
        inside: The nodes that the cycle may pass.
    """
    before: dict[int, int] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for after in waits.get(node, ()):
            if after == start:
                path = [node]
                while path[-1] != start:
                    path.append(before[path[-1]])
                return path[::-1]
            if after in inside and after not in before:
                before[after] = node
                queue.append(after)
    return []
