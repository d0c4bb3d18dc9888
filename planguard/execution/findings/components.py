"""Strongly connected components, iterative, for wait-for graphs of any size."""

from __future__ import annotations


def components(edges: dict[int, list[int]]) -> list[list[int]]:
    """Return the components that contain a cycle (Tarjan 1972), in a fixed order.

    Args:
        edges: Successors of every node.
    """
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root, first in edges.items():
        if root in order:
            continue
        work = [(root, iter(first))]
        _enter(root, order, low, stack, on_stack)
        while work:
            node, successors = work[-1]
            for after in successors:
                if after not in edges:
                    continue
                if after not in order:
                    _enter(after, order, low, stack, on_stack)
                    work.append((after, iter(edges[after])))
                    break
                if after in on_stack:
                    low[node] = min(low[node], order[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    component = _leave(node, stack, on_stack)
                    if len(component) > 1 or node in edges[node]:
                        found.append(component)
    return found


def _enter(
    node: int, order: dict[int, int], low: dict[int, int], stack: list[int], on_stack: set[int]
) -> None:
    order[node] = low[node] = len(order)
    stack.append(node)
    on_stack.add(node)


def _leave(node: int, stack: list[int], on_stack: set[int]) -> list[int]:
    component = []
    while True:
        member = stack.pop()
        on_stack.discard(member)
        component.append(member)
        if member == node:
            return component
