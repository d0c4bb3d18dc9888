"""The matrices of the page: edges by kind of traffic, and the patterns of every sum of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.report.page.columns import ABSENT
from planguard.report.page.steps import step_traffic
from planguard.simulate.matrix import matrix, nodes, rolled
from planguard.simulate.patterns import patterns
from planguard.simulate.traffic import HOST, Key, Traffic
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.groups import ProcessGroup
    from planguard.plan.plan import Plan
    from planguard.report.page.columns import Columns
    from planguard.simulate.schedule import Schedule

DRAWN = 1024
"""Most ranks of a matrix on the page; larger worlds are shown by node."""
EDGES = 120_000
"""Most edges on the page."""
LOOKED_AT = 64
"""Most instances of a group whose pattern is looked at."""
_ANY = Key("", "", "", "", "")
_FIELDS = ("family", "primitive", "group", "dtype", "phase")


def matrices(
    plan: Plan, columns: Columns, moved: Traffic, found: Schedule | None = None
) -> dict[str, Any]:
    """Add the edges of a plan's traffic and return what the page says of them.

    An edge is a sender, a receiver, a kind of traffic, its bytes and its messages, and the step of
    training it belongs to, if the times of the plan have any. ``HOST`` is written as the number of
    ranks.
    """
    by_step = [] if found is None else step_traffic(found, moved.algorithm)
    world = plan.world_size
    edges: list[tuple[int, ...]] = [
        (world if src == HOST else src, world if dst == HOST else dst, number, size, messages, step)
        for number, key in enumerate(moved.edges)
        for step, pairs in _parted(key, moved, by_step)
        for (src, dst), (size, messages) in pairs.items()
    ]
    place = nodes(plan)
    is_rolled = plan.world_size > DRAWN or len(edges) > EDGES
    row, names = rolled(plan) if is_rolled else ([], ())
    if is_rolled:
        edges = _by_node(moved, row)
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
        "byNode": is_rolled,
        "rows": list(names),
        "nodes": [] if is_rolled else [place[r] for r in range(plan.world_size)],
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


def _by_node(moved: Traffic, row: list[int]) -> list[tuple[int, ...]]:
    cells: dict[tuple[int, int, int], list[int]] = {}
    for number, pairs in enumerate(moved.edges.values()):
        for (src, dst), (size, messages) in pairs.items():
            if HOST not in (src, dst):
                cell = cells.setdefault((row[src], row[dst], number), [0, 0])
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
        out.append(
            {
                "title": clean(title),
                "wanted": {field: clean(value) for field, value in wanted.items()},
                "patterns": _named(moved, plan, wanted),
            }
        )
    return out


def _named(moved: Traffic, plan: Plan, wanted: dict[str, str]) -> list[list[Any]]:
    """Return the patterns of one sum: name, confidence, and how many instances of a group have it.

    The ranks of one instance of a group are looked at alone: eight rings beside each other are no
    ring, and each of them is one. A pattern is named where all instances show it; in a world too
    large for a cell each, ``LOOKED_AT`` of them.
    """
    group = next((one for one in plan.groups if one.name == wanted.get("group")), None)
    if group is not None and group.is_family and plan.mesh is not None:
        return _in_instances(moved.total(**wanted), plan, group)
    if plan.world_size > DRAWN:
        return []  # what stays inside a row is on its diagonal: no pattern of ranks
    return [[p.name, p.confidence, 1] for p in patterns(matrix(moved, **wanted))]


def _in_instances(edges: Pairs, plan: Plan, group: ProcessGroup) -> list[list[Any]]:
    if plan.mesh is None or group.size(plan.mesh) > DRAWN:
        return []
    parted: dict[int, Pairs] = {}
    for pair, cell in edges.items():
        if HOST not in pair:
            base = plan.mesh.family_base(pair[0], group.mesh_dims)
            parted.setdefault(base, {})[pair] = cell
    found: dict[str, float] = {}
    seen: set[tuple[str, ...]] = set()
    for base in sorted(parted)[:LOOKED_AT]:
        members = group.members(base, plan.mesh)
        place = {rank: at for at, rank in enumerate(members)}
        inside = {
            (place[src], place[dst]): cell
            for (src, dst), cell in parted[base].items()
            if src in place and dst in place
        }
        if len(inside) < len(parted[base]):
            return []  # messages that leave the instance
        own = patterns(matrix(Traffic(len(members), "", {_ANY: inside})))
        seen.add(tuple(one.name for one in own))
        for one in own:
            found[one.name] = min(one.confidence, found.get(one.name, 1.0))
    count = len(parted)
    return [[n, sure, count] for n, sure in found.items()] if len(seen) == 1 else []
