"""The strategy view: operators of one rank per class, laid out in execution order, linear time.

Visual Diagnostics moves every node to its place in the execution sequence; here the place is
computed at once: x is the longest path from the start over program order and messages, so blocks
of a pipeline stand where their data let them, and y is a lane by role. No random start, no engine.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import ALONE, COPIES, OPEN_BLOCKS
from planguard.report.page.spans import BACKWARD, FORWARD
from planguard.report.page.stacks import stacks
from planguard.simulate.rules.facts import Facts
from planguard.words import clean

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.report.page.spans import Row
    from planguard.simulate.rules.facts import Use
    from planguard.simulate.schedule import Schedule

MOST = 1500
"""Most operators drawn of one class; longer programs are cut, and the page says so."""
CLASSES = 16
"""Most classes drawn."""
EDGES = ("data", "activation", "parameter", "gradient", "optimizer", "control", "communication")
_SKIPPED = ALONE - COPIES - {"compute"} | OPEN_BLOCKS.keys() | {"batch"}


@dataclass
class Node:
    """One operator: where it stands and what it is."""

    block: int
    use: Use
    lane: int
    layer: int = 0
    phase: str = ""


@dataclass
class Graph:
    """Operators, and edges as ``(from, to, class of edge, tensor)``."""

    nodes: list[Node] = field(default_factory=list)
    edges: list[tuple[int, int, int, str]] = field(default_factory=list)
    parameters: list[tuple[int, str]] = field(default_factory=list)
    cut: int = 0


def strategy(plan: Plan, kept: list[Row], found: Schedule | None) -> dict[str, Any]:
    """Return the graph of a plan's operators as the page draws it."""
    facts = Facts(plan)
    blocks = _blocks(kept)
    graph = Graph()
    places: dict[tuple[int, int, int], int] = {}
    for number, (row, _) in enumerate(blocks):
        _block(graph, facts, number, row, places)
    if found is not None:
        _messages(graph, kept, blocks, found, places)
    _layers(graph)
    return _document(facts, graph, blocks)


def _blocks(kept: list[Row]) -> list[tuple[Row, list[int]]]:
    """Return one row per class with the ranks it stands for, in order of stage."""
    classes: dict[int, list[Row]] = {}
    for row in kept:
        classes.setdefault(row.alike, []).append(row)
    return [(own[0], [row.rank for row in own]) for own in classes.values()][:CLASSES]


def _lane(use: Use) -> int:
    if use.op == "compute":
        return 0
    if use.group is not None and "peer" not in use.node.__struct_fields__:
        return 1
    return 2 if "peer" in use.node.__struct_fields__ else 3


def _block(
    graph: Graph, facts: Facts, block: int, row: Row, places: dict[tuple[int, int, int], int]
) -> None:
    """Add the operators of one rank with the edges between them."""
    uses = [use for use in facts.of_rank(row.rank) if use.op not in _SKIPPED]
    graph.cut += max(0, len(uses) - MOST)
    members: dict[int, int] = defaultdict(int)
    writers: dict[str, int] = {}
    named: dict[str, int] = {}
    before: int | None = None
    for use in uses[:MOST]:
        number = len(graph.nodes)
        phase = str(use.field("phase") or "")
        graph.nodes.append(Node(block, use, _lane(use), phase=phase))
        places[block, use.index, members[use.index]] = number
        members[use.index] += 1
        linked = _inputs(graph, number, use, writers, named)
        if before is not None and not linked:
            graph.edges.append((before, number, EDGES.index("control"), ""))
        before = number
        for name in use.field("writes") or ():
            writers[name] = number
        if use.field("id"):
            named[str(use.field("id"))] = number


def _inputs(
    graph: Graph, number: int, use: Use, writers: dict[str, int], named: dict[str, int]
) -> bool:
    """Add the edges of what an operator reads; whether there are any from an operator."""
    sources: dict[int, str] = {}
    for name in [*(use.field("reads") or ()), *filter(None, [use.field("tensor")])]:
        if name in writers:
            sources.setdefault(writers[name], name)
        elif use.op == "compute":
            graph.parameters.append((number, name))
    for name in use.field("deps") or ():
        if name in named:
            sources.setdefault(named[name], "")
    for source, tensor in sources.items():
        if source != number:
            kind = _edge(graph.nodes[source], graph.nodes[number])
            graph.edges.append((source, number, EDGES.index(kind), tensor))
    return bool(sources)


def _edge(source: Node, target: Node) -> str:
    """Return the class of a data edge by the phases of its ends (VD-13's seven, ours)."""
    before, after = source.phase.lower(), target.phase.lower()
    if after.startswith(("opt", "step", "update")):
        return "optimizer"
    if before in FORWARD and after in BACKWARD:
        return "activation"
    return "gradient" if before in BACKWARD else "data"


def _messages(
    graph: Graph,
    kept: list[Row],
    blocks: list[tuple[Row, list[int]]],
    found: Schedule,
    places: dict[tuple[int, int, int], int],
) -> None:
    """Add an edge for every pair of send and receive between classes, first iterations only."""
    number = {row.alike: at for at, (row, _) in enumerate(blocks)}
    block = {row.rank: number.get(row.alike, -1) for row in kept}
    ends: dict[int, dict[str, int]] = defaultdict(dict)
    for span in found.spans:
        if span.kind in {"send", "recv"} and span.match is not None:
            key = (block.get(span.rank, -1), span.action, span.member or 0)
            if key in places:
                ends[span.match].setdefault(span.kind, places[key])
    kind = EDGES.index("communication")
    pairs = {(e["send"], e["recv"]): None for e in ends.values() if len(e) == 2}
    graph.edges += [(send, recv, kind, "") for send, recv in pairs]


def _layers(graph: Graph) -> None:
    """Give every operator its x: the longest path over program order and messages."""
    after: dict[int, list[int]] = defaultdict(list)
    missing = [0] * len(graph.nodes)
    order = [
        (at - 1, at)
        for at in range(1, len(graph.nodes))
        if graph.nodes[at].block == graph.nodes[at - 1].block
    ]
    kind = EDGES.index("communication")
    for source, target in [*order, *((s, t) for s, t, k, _ in graph.edges if k == kind)]:
        after[source].append(target)
        missing[target] += 1
    ready = [at for at, count in enumerate(missing) if not count]
    done = 0
    while ready:
        at = ready.pop()
        done += 1
        for target in after[at]:
            graph.nodes[target].layer = max(graph.nodes[target].layer, graph.nodes[at].layer + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    if done < len(graph.nodes):  # messages in a circle: every block in its own order
        layer = 0
        for at, node in enumerate(graph.nodes):
            layer = 0 if not at or graph.nodes[at - 1].block != node.block else layer + 1
            node.layer = layer


def _document(facts: Facts, graph: Graph, blocks: list[tuple[Row, list[int]]]) -> dict[str, Any]:
    spans = [[node.block, node.layer, node.lane] for node in graph.nodes]
    return {
        "blocks": [
            {"rank": row.rank, "ranks": ranks, "stages": list(row.stages)} for row, ranks in blocks
        ],
        "nodes": [[*at, *_said(node)] for at, node in zip(spans, graph.nodes, strict=True)],
        "edges": [[s, t, k, clean(tensor)] for s, t, k, tensor in graph.edges],
        "parameters": [[at, clean(name)] for at, name in graph.parameters],
        "tensors": {
            clean(name): {
                "shape": list(tensor.shape),
                "cuts": list(tensor.strategy) or [1] * len(tensor.shape),
                "bytes": tensor.bytes,
                "known": bool(tensor.strategy),
            }
            for name, tensor in facts.tensors.items()
        },
        "stacks": stacks(
            [
                (n.block, clean(str(n.use.field("ns") or "")), n.use.op + _name(n.use))
                for n in graph.nodes
            ],
            [(s, t) for s, t, *_ in graph.edges],
        ),
        "cut": graph.cut,
    }


def _name(use: Use) -> str:
    return clean(str(use.field("op_name") or ""))


def _said(node: Node) -> list[Any]:
    use = node.use
    tensors = [*(use.field("writes") or ()), *filter(None, [use.field("tensor")])]
    return [
        _name(use) or use.op,
        use.op,
        clean(str(use.group or "")),
        clean(str(use.field("ns") or "")),
        clean(node.phase),
        use.index,
        use.times,
        use.bytes,
        use.field("flops"),
        use.field("mb"),
        [clean(name) for name in tensors],
        use.field("stage"),
    ]
