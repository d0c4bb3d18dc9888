"""The matrices of the page: edges by kind of traffic, and the patterns of every sum of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.report.page.columns import ABSENT
from planguard.report.page.steps import step_traffic
from planguard.simulate.matrix import LARGEST, by_node, matrix, nodes
from planguard.simulate.patterns import patterns
from planguard.simulate.traffic import HOST, traffic
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.plan import Plan
    from planguard.report.page.columns import Columns
    from planguard.simulate.schedule import Schedule
    from planguard.simulate.traffic import Key, Traffic

DRAWN = 1024
"""Most ranks of a matrix on the page; larger worlds are shown by node."""
EDGES = 120_000
"""Most edges on the page."""
_FIELDS = ("family", "primitive", "group", "dtype", "phase")


def matrices(
    plan: Plan, columns: Columns, algorithm: str = "ring", found: Schedule | None = None
) -> dict[str, Any]:
    """Add the edges of a plan's traffic and return what the page says of them.

    An edge is a sender, a receiver, a kind of traffic, its bytes and its messages, and the step of
    training it belongs to, if the times of the plan have any. ``HOST`` is written as the number of
    ranks.
    """
    moved = traffic(plan, algorithm)
    by_step = [] if found is None else step_traffic(found, algorithm)
    world = plan.world_size
    edges: list[tuple[int, ...]] = [
        (world if src == HOST else src, world if dst == HOST else dst, number, size, messages, step)
        for number, key in enumerate(moved.edges)
        for step, pairs in _parted(key, moved, by_step)
        for (src, dst), (size, messages) in pairs.items()
    ]
    place = nodes(plan)
    if plan.world_size > DRAWN or len(edges) > EDGES:
        edges = _by_node(moved, place)
    for at, (name, kind) in enumerate(
        [("src", "u32"), ("dst", "u32"), ("key", "u32"), ("bytes", "f64"), ("count", "f64"),
         ("step", "u32")]
    ):  # fmt: skip
        columns.put(f"edge.{name}", [edge[at] for edge in edges], kind)
    return {
        "algorithm": moved.algorithm,
        "basis": moved.basis,
        "notes": list(moved.notes),
        "keys": [[clean(getattr(key, f)) for f in _FIELDS] for key in moved.edges],
        "views": _views(moved, plan),
        "byNode": plan.world_size > DRAWN or len(edges) > EDGES,
        "nodes": [None if place[r] is None else place[r] for r in range(plan.world_size)]
        if plan.world_size <= DRAWN
        else sorted({n for n in place.values() if n is not None}),
    }


Pairs = dict[tuple[int, int], tuple[int, int]]


def _parted(key: Key, moved: Traffic, by_step: list[Traffic]) -> Iterator[tuple[int, Pairs]]:
    """Yield what each step moves of one kind, and the rest: together they are the whole."""
    rest = {pair: list(cell) for pair, cell in moved.edges[key].items()}
    for number, step in enumerate(by_step):
        pairs = step.edges.get(key, {})
        for pair, (size, messages) in pairs.items():
            rest[pair][0] -= size
            rest[pair][1] -= messages
        yield number, pairs
    yield ABSENT, {pair: (size, count) for pair, (size, count) in rest.items() if size or count}


def _by_node(moved: Traffic, place: dict[int, int | None]) -> list[tuple[int, ...]]:
    names = sorted(set(place.values()), key=lambda n: (n is None, n))
    row = {name: at for at, name in enumerate(names)}
    cells: dict[tuple[int, int, int], list[int]] = {}
    for number, pairs in enumerate(moved.edges.values()):
        for (src, dst), (size, messages) in pairs.items():
            if HOST not in (src, dst):
                cell = cells.setdefault((row[place[src]], row[place[dst]], number), [0, 0])
                cell[0] += size
                cell[1] += messages
    return [(*pair, *cell, ABSENT) for pair, cell in sorted(cells.items())]


def _views(moved: Traffic, plan: Plan) -> list[dict[str, Any]]:
    """Return the sums that can be chosen: all, every primitive, every group, every phase."""
    chosen: list[tuple[str, dict[str, str]]] = [("all traffic", {})]
    for field, word in (("primitive", ""), ("group", "group "), ("phase", "phase ")):
        values = sorted({getattr(key, field) for key in moved.edges} - {""})
        if len(values) > 1 or field == "primitive":
            chosen += [(word + value, {field: value}) for value in values]
    out = []
    for title, wanted in chosen:
        small = plan.world_size <= LARGEST
        found = matrix(moved, **wanted) if small else by_node(moved, plan, **wanted)
        out.append(
            {
                "title": clean(title),
                "wanted": {field: clean(value) for field, value in wanted.items()},
                # What stays inside a node is on the diagonal: no pattern of ranks.
                "patterns": [[p.name, p.confidence] for p in patterns(found)] if small else [],
            }
        )
    return out
