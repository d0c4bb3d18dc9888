"""One component of the may-wait graph as clauses: is there a stuck state in some order?

One boolean per stand: "this lane is stuck here", at most one per lane. Whatever holds needs one of
its successors (somebody who is late) and, as only cycles are looked for, one of its predecessors.
There are no variables for orders: where every lane stands at most once, an order that puts each
stand before the arrival it delays exists by construction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.reordering.smt import Answer, Solver

if TYPE_CHECKING:
    from planguard.reordering.orders.cycles import Component, Stuck
    from planguard.reordering.smt import Limits, Result


def clauses(part: Component) -> tuple[Solver, dict[int, int]]:
    """Return the clauses of a component, and the variable of every node."""
    graph, inside = part.graph, part.inside
    solver = Solver()
    variable = {node: solver.variable() for node in sorted(inside)}
    before: dict[int, list[int]] = {node: [] for node in inside}
    for node in inside:
        followers = [target for target in graph.edges[node] if target in inside]
        for target in followers:
            before[target].append(variable[node])
        solver.add(-variable[node], *(variable[target] for target in followers))
    solver.extend((-variable[node], *found) for node, found in before.items())
    lanes: dict[int, list[int]] = {}
    for stand in part.stands:
        lanes.setdefault(graph.lane[stand], []).append(variable[stand])
    for literals in lanes.values():
        solver.at_most_one(literals)
    solver.add(*(variable[stand] for stand in part.stands))
    return solver, variable


def solve(part: Component, limits: Limits) -> tuple[Stuck | None, Result]:
    """Decide one component.

    Returns:
        A cycle with distinct lanes if SAT, and the answer of the solver.
    """
    solver, variable = clauses(part)
    found = solver.solve(limits)
    if found.answer is not Answer.SAT:
        return None, found
    holds = {node for node in part.inside if variable[node] in found.true}
    return _cycle(part, holds), found


def _cycle(part: Component, holds: set[int]) -> Stuck:
    """Follow what holds from stand to stand until one comes again."""
    graph = part.graph
    path: list[int] = []
    node = next(stand for stand in part.stands if stand in holds)
    while node not in path:
        path.append(node)
        node = _next(graph.edges, node, holds, graph.stand)
    return part.stuck(path[path.index(node) :])


def _next(edges: list[list[int]], node: int, holds: set[int], stands: set[int]) -> int:
    """Return the first stand that what holds after a node leads to."""
    node = next(target for target in edges[node] if target in holds)
    while node not in stands:
        node = next(target for target in edges[node] if target in holds)
    return node
