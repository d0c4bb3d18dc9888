"""Circles of waits, and the shortest one through a node, against networkx on random graphs."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from planguard.execution.waits import circles, shortest_through


def drawn(seed):
    """A random graph of waits with ranks that wait for themselves, for some, and for nobody."""
    rng = random.Random(seed)
    nodes = rng.sample(range(100), rng.randint(1, 12))
    return {node: rng.sample([*nodes, 1000], rng.randint(0, min(3, len(nodes)))) for node in nodes}


@pytest.mark.parametrize("seed", range(150))
def test_circles_are_the_components_with_a_cycle(seed):
    """A node alone is one only where it waits for itself."""
    waits = drawn(seed)
    graph = nx.DiGraph([(node, other) for node in waits for other in waits[node]])
    wanted = {
        frozenset(part)
        for part in nx.strongly_connected_components(graph)
        if len(part) > 1 or any(graph.has_edge(node, node) for node in part)
    }
    found = circles(waits)
    assert {frozenset(part) for part in found} == wanted
    assert len(found) == len(wanted)


@pytest.mark.parametrize("seed", range(150))
def test_a_shortest_cycle_is_a_cycle_and_none_is_shorter(seed):
    """It begins at the node, every step is a wait, and its length is the least there is."""
    waits = drawn(seed)
    graph = nx.DiGraph([(node, other) for node in waits for other in waits[node]])
    for part in circles(waits):
        for start in part:
            path = shortest_through(start, waits, set(part))
            assert path[0] == start
            assert all(b in waits[a] for a, b in zip(path, [*path[1:], start], strict=True))
            lengths = nx.single_source_shortest_path_length(graph.reverse(), start)
            back = [1 + lengths[node] for node in waits[start] if node in lengths]
            assert len(path) == min(back)
    alone = next((node for node in waits if not waits[node]), None)
    assert alone is None or shortest_through(alone, waits, set(waits)) == []


def test_a_long_chain_of_waits_needs_no_recursion():
    """A ring of 50,000 ranks is one circle."""
    ring = {rank: [(rank + 1) % 50_000] for rank in range(50_000)}
    assert [len(part) for part in circles(ring)] == [50_000]
