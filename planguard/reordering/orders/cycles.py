"""Cycles of the may-wait graph with at most one stand per lane: each is an order that gets stuck.

A cycle that lets one lane stand at two places is no order; ignoring that gave 600 false alarms in
4,000 random cases (Theorem 4, docs/explanation/every-order-proofs.md).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.execution import waits
from planguard.reordering.orders.shrink import agree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.reordering.blocks import RankOrder
    from planguard.reordering.orders.weak_graph import MayWait

STARTS = 24
"""Stands from which a shortest cycle is looked for."""
LOOKS = 400_000
"""Edges that are looked at in search of a shorter cycle once there is one: any cycle decides."""
STEPS = 20_000
"""Steps of the exhaustive search, beyond which it gives up."""


@dataclass(frozen=True)
class Stuck:
    """A cycle: stands, and for each the late arrival of its lane that the one before waits for."""

    stands: tuple[int, ...]
    late: tuple[int, ...]


def components(graph: MayWait) -> list[list[int]]:
    """Return the strongly connected components with a cycle, smallest first."""
    return sorted(waits.components(graph.edges), key=len)


def stands_after(graph: MayWait, stand: int, inside: set[int]) -> Iterator[tuple[int, int]]:
    """Yield the stands that one may depend on, each with the late arrival in between."""
    todo: list[tuple[int, int]] = [(target, -1) for target in graph.edges[stand]]
    seen: set[tuple[int, int]] = set()
    while todo:
        node, late = todo.pop()
        if node not in inside or (node, late) in seen:
            continue
        seen.add((node, late))
        if node in graph.stand:
            yield node, late
            continue
        if graph.lane[node] >= 0:
            late = node
        todo += [(target, late) for target in graph.edges[node]]


class Component:
    """One component of the graph, with the stands that each stand may depend on."""

    def __init__(
        self, graph: MayWait, members: list[int], orders: Sequence[RankOrder] = ()
    ) -> None:
        self.graph, self.orders = graph, orders
        self.inside = set(members)
        self.stands = sorted(node for node in members if node in graph.stand)
        self._after: dict[int, dict[int, int]] = {}

    def after(self, stand: int) -> dict[int, int]:
        """Return the stands that ``stand`` may depend on, each with the late arrival between."""
        if stand not in self._after:
            self._after[stand] = dict(stands_after(self.graph, stand, self.inside))
        return self._after[stand]

    def stuck(self, stands: list[int]) -> Stuck:
        """Return a cycle of stands with the arrivals between."""
        turned = zip(stands[-1:] + stands[:-1], stands, strict=True)
        return Stuck(tuple(stands), tuple(self.after(first)[second] for first, second in turned))

    def fits(self, stands: list[int]) -> bool:
        """Whether no lane stands at two places, and each rank has an order that says it all."""
        if len({self.graph.lane[node] for node in stands}) < len(stands):
            return False
        ranks = {self.graph.place[node].rank for node in stands}
        makers = self.graph.makers
        if len(ranks) == len(stands) and not any(node in makers for node in stands):
            return True
        return not self.orders or agree(self.graph, self.stuck(stands), self.orders)


def shortest(part: Component) -> Stuck | None:
    """Return a short cycle with distinct lanes through a stand of the smallest lanes, if any."""
    best: list[int] | None = None
    by_lane = sorted(part.stands, key=lambda node: part.graph.lane[node])
    looks = 0
    for start in by_lane[:STARTS]:
        cycle, cost = _back_to(part, start, len(best) if best else len(part.stands) + 1)
        looks += cost
        if cycle is not None and part.fits(cycle):
            best = cycle
        if best is not None and (len(best) <= 2 or looks > LOOKS):
            break
    return None if best is None else part.stuck(best)


def _back_to(part: Component, start: int, limit: int) -> tuple[list[int] | None, int]:
    """Return a shortest cycle through a stand with fewer than ``limit`` stands.

    Breadth first by the number of stands, over the edges of the graph as they are: what a stand
    may depend on is never listed, since that is quadratic in a block.

    Returns:
        The stands of the cycle if there is one, and how many edges were looked at.
    """
    edges, inside, stand = part.graph.edges, part.inside, part.graph.stand
    before: dict[int, int] = {}
    level, length, looks = [start], 1, 0
    while level and length < limit:
        following: list[int] = []
        todo = deque(level)
        while todo:
            node = todo.popleft()
            looks += len(edges[node])
            for target in edges[node]:
                if target == start:
                    return _stands_on(part, before, node, start), looks
                if target in inside and target not in before:
                    before[target] = node
                    (following if target in stand else todo).append(target)
        level, length = following, length + 1
    return None, looks


def _stands_on(part: Component, before: dict[int, int], node: int, start: int) -> list[int]:
    """Return the stands on the way from a stand to a node, in this order."""
    found = [] if node == start or node not in part.graph.stand else [node]
    while node != start:
        node = before[node]
        if node in part.graph.stand:
            found.append(node)
    return found[::-1] if found else [start]


def exhaust(part: Component, steps: int = STEPS) -> tuple[Stuck | None, bool]:
    """Try every cycle with distinct lanes.

    Returns:
        A cycle if there is one, and whether the answer is final (enough steps).
    """
    lane = part.graph.lane
    left = steps
    for start in part.stands:
        # Only cycles whose smallest stand this is: the others are found from theirs.
        path, used = [start], {lane[start]}
        turn = [iter(part.after(start))]
        while path:
            target = next(turn[-1], None)
            left -= 1
            if left < 0:
                return None, False
            if target is None:
                used.discard(lane[path.pop()])
                turn.pop()
            elif target == start:
                if part.fits(path):
                    return part.stuck(path), True
            elif target > start and lane[target] not in used:
                path.append(target)
                used.add(lane[target])
                turn.append(iter(part.after(target)))
    return None, True
