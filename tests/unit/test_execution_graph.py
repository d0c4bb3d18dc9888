from __future__ import annotations

import planguard
from planguard.reordering.execution_graph import REASONS, execution_graph

PROGRAM = [
    {"op": "all_reduce", "bytes": 4, "async": True, "work": "h", "id": "g"},
    {"op": "unordered", "body": [
        {"op": "send", "peer": 1, "bytes": 4, "id": "s"},
        {"op": "all_gather", "bytes": 4, "after": ["s"]},
    ]},
    {"op": "threads", "threads": [
        [{"op": "event_record", "event": "e"}, {"op": "compute", "deps": ["g"]}],
        [{"op": "event_wait", "event": "e", "stream": "side"}],
    ]},
    {"op": "wait", "work": "h"},
    {"op": "choice", "name": "c", "branches": [[{"op": "barrier"}], []]},
    {"op": "host_sync"},
]  # fmt: skip


def graph_of(model: str = "nccl"):
    """Return the graph of a plan that uses every reason."""
    other = [
        {"op": "all_reduce", "bytes": 4},
        {"op": "recv", "peer": 0, "bytes": 4},
        {"op": "all_gather", "bytes": 4},
        {"op": "barrier"},
    ]
    ranks = {"0": {"actions": PROGRAM}, "1": {"actions": other}}
    plan = {"schema": "planguard.plan/1", "world_size": 2, "ranks": ranks}
    return execution_graph(planguard.load(plan), model)


def test_every_edge_has_its_reason() -> None:
    """All reasons occur, and every edge carries one of them and its sentence."""
    graph = graph_of()
    found = {data["why"] for _, _, data in graph.edges(data=True)}
    assert found == set(REASONS)
    assert all(data["reason"] == REASONS[data["why"]] for _, _, data in graph.edges(data=True))


def test_edges_inside_a_rank_are_acyclic_and_matches_go_both_ways() -> None:
    """What is issued before what is an order; members of a match wait for each other."""
    import networkx as nx

    graph = graph_of()
    inside = [(a, b) for a, b in graph.edges if a[0] == b[0]]
    assert nx.is_directed_acyclic_graph(nx.DiGraph(inside))
    across = {(a, b) for a, b in graph.edges if a[0] != b[0]}
    assert across == {(b, a) for a, b in across}
    meets = {frozenset((graph.nodes[a]["op"], graph.nodes[b]["op"])) for a, b in across}
    assert {"send", "recv"} in meets


def test_a_host_model_has_no_edge_for_a_synchronization_of_streams() -> None:
    """Where nothing runs on a stream, `host_sync` waits for nothing."""
    found = {data["why"] for _, _, data in graph_of("gloo").edges(data=True)}
    assert "host-sync" not in found
