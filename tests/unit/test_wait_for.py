from __future__ import annotations

import networkx as nx
import pytest

import planguard
from planguard.execution.findings.stuck import stuck_by_rank
from planguard.execution.findings.wait_for import wait_for_graph


def load(*programs, groups=None):
    """Make a plan with one program per rank."""
    ranks = {str(rank): {"actions": list(program)} for rank, program in enumerate(programs)}
    return planguard.load(
        {
            "schema": "planguard.plan/1",
            "world_size": len(programs),
            "groups": groups or {},
            "ranks": ranks,
        }
    )


def send(peer):
    """A blocking send."""
    return {"op": "send", "peer": peer, "bytes": 4}


def recv(peer):
    """A blocking receive."""
    return {"op": "recv", "peer": peer, "bytes": 4}


RING = [[send((rank + 1) % 3), recv((rank + 2) % 3)] for rank in range(3)]


@pytest.mark.parametrize("model", ["gloo", "nccl", "mpi-sync"])
def test_a_ring_of_sends_is_one_cycle(model):
    """Three sends in a ring wait for each other: one cycle through all ranks."""
    graph = wait_for_graph(load(*RING), model)
    (cycle,) = nx.simple_cycles(graph)
    assert {rank for rank, _ in cycle} == {0, 1, 2}


def test_every_edge_has_a_reason():
    """Each edge carries a word of the result schema and a sentence that names both ranks."""
    graph = wait_for_graph(load(*RING), "gloo")
    assert graph.number_of_edges() == 6
    for _, _, edge in graph.edges(data=True):
        assert edge["why"] in {"send-unmatched", "queue"}
        assert "rank" in edge["reason"]


def test_a_missing_participant_is_no_cycle():
    """A rank that skips a collective leaves the others waiting for it, and no cycle."""
    reduce = {"op": "all_reduce", "bytes": 4}
    graph = wait_for_graph(load([reduce], [reduce], []), "gloo")
    assert not list(nx.simple_cycles(graph))
    assert set(graph.successors((0, 0))) == {(2, None)}
    assert set(graph.successors((1, 0))) == {(2, None)}


def test_a_plan_that_completes_has_no_edges():
    """Nobody waits at the end of a safe plan."""
    assert wait_for_graph(load([send(1)], [recv(0)]), "gloo").number_of_nodes() == 0


def test_stuck_nodes_are_those_of_the_executor():
    """The stuck nodes of the graph are where the executor says that ranks stand."""
    from planguard.execution.running.executor import execute
    from planguard.execution.running.expand import expand
    from planguard.semantics.model import find_model, lenient

    plan, model = load(*RING), find_model("gloo")
    execution = execute(plan, expand(plan), model, lenient(model, 0), origins=True)
    stands = {(rank, place.action) for rank, place in stuck_by_rank(execution).items()}
    graph = wait_for_graph(plan, "gloo")
    assert {node for node, data in graph.nodes(data=True) if data["stuck"]} == stands
