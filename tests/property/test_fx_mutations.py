"""Five kinds of mistakes in one rank's graph, on every real graph, judged by the enumerator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from oracle.enumerator import Effort, enumerate_plan

import planguard
from planguard import registry

registry.find("fx")  # mounts planguard.planners where it is not installed

from planguard.planners.fx import read_bundle  # noqa: E402
from planguard.planners.fx.model import Ref, TensorMeta  # noqa: E402
from planguard.planners.fx.operations import find_operation, is_wait  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "samples" / "fx"
SAMPLES = sorted(FOLDER.glob("*.fx.json"))
MODELS = ("nccl", "nccl-serialized", "gloo", "mpi-sync")
RANK = 2


def blocks(graph):
    """Pair every collective of a graph with its wait: places of both in the list of nodes."""
    nodes = graph.nodes
    waits = {n.args[0].node: place for place, n in enumerate(nodes) if is_wait(n)}
    return [(i, waits[n.name]) for i, n in enumerate(nodes) if find_operation(n) is not None]


def change(bundle, edit):
    """Apply an edit to the first graph with two collectives of one rank."""
    program = bundle.programs[RANK]
    graphs = list(program.graphs)
    place = next(i for i, graph in enumerate(graphs) if len(blocks(graph)) >= (2 if i else 1))
    graphs[place] = replace(
        graphs[place], nodes=tuple(edit(list(graphs[place].nodes), graphs[place]))
    )
    changed = replace(program, graphs=tuple(graphs))
    return replace(bundle, programs={**bundle.programs, RANK: changed})


def dropped(nodes, graph):
    """Leave out a collective and its wait; its input takes the place of its result."""
    issue, wait = blocks(graph)[-1]
    source = nodes[issue].args[0].node
    gone = {nodes[issue].name, nodes[wait].name}

    def without(arg):
        if isinstance(arg, tuple):
            return tuple(without(item) for item in arg)
        return Ref(source) if isinstance(arg, Ref) and arg.node in gone else arg

    return [
        structs.replace(node, args=tuple(without(arg) for arg in node.args))
        for node in nodes
        if node.name not in gone
    ]


def doubled(nodes, graph):
    """Issue a collective a second time."""
    issue, wait = blocks(graph)[0]
    again = structs.replace(nodes[issue], name="again")
    end = structs.replace(nodes[wait], name="wait_again", args=(Ref("again"),))
    return [*nodes[: wait + 1], again, end, *nodes[wait + 1 :]]


def resized(nodes, graph):
    """Let a collective move one row more than on the other ranks."""
    issue, _ = blocks(graph)[0]
    if "all_to_all" in nodes[issue].target:
        source, received, sent, group = nodes[issue].args
        more = (*received[:-1], received[-1] + 1)
        nodes[issue] = structs.replace(nodes[issue], args=(source, more, sent, group))
        return nodes

    def larger(node):
        shape = (node.val.shape[0] + 1, *node.val.shape[1:])
        return structs.replace(node, val=TensorMeta(shape, node.val.dtype))

    names = {nodes[issue].name, nodes[issue].args[0].node}
    return [larger(node) if node.name in names else node for node in nodes]


def rerouted(nodes, graph):
    """Issue another operator than the other ranks: the sum becomes a maximum, or a broadcast."""
    issue, _ = blocks(graph)[-1]
    node = nodes[issue]
    group = next(arg for arg in reversed(node.args) if isinstance(arg, str))
    if "sum" in node.args or "avg" in node.args:
        args = tuple("max" if arg in ("sum", "avg") else arg for arg in node.args)
        nodes[issue] = structs.replace(node, args=args)
    else:
        target = "_c10d_functional.broadcast.default"
        nodes[issue] = structs.replace(node, target=target, args=(node.args[0], 0, group))
    return nodes


def late(nodes, graph):
    """Issue a collective behind everything else that the graph issues."""
    issue, wait = blocks(graph)[0]
    moved = [nodes[issue], nodes[wait]]
    stay = [node for place, node in enumerate(nodes[:-1]) if place not in (issue, wait)]
    known, first, behind = {n.name for n in moved}, [], []
    for node in stay:  # what depends on the moved pair has to follow it
        late_input = any(name in known for name in node.inputs())
        if late_input:
            known.add(node.name)
        (behind if late_input else first).append(node)
    return [*first, *moved, *behind, nodes[-1]]


MUTATIONS = (dropped, doubled, resized, rerouted, late)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.name.removesuffix(".fx.json"))
def test_a_mistake_in_one_ranks_graph_is_judged_as_the_enumerator_judges_it(path, mutation):
    """The checker's outcome of a mutated real graph is that of exhaustive exploration."""
    plan = planguard.load(change(read_bundle(path), mutation), planner="fx")
    document = json.loads(plan.source)
    for model in MODELS:
        expected = enumerate_plan(document, model, Effort(verify=0)).outcome
        assert planguard.check(plan, model=model).outcome.value == expected


def test_every_mistake_but_a_harmless_reordering_is_unsafe():
    """The mutations are mistakes; only moving a collective is harmless where its data flow, or the
    lack of another collective on its group, puts it back in place.
    """
    unsafe = {}
    for path in SAMPLES:
        for mutation in MUTATIONS:
            plan = planguard.load(change(read_bundle(path), mutation), planner="fx")
            unsafe[path.name, mutation.__name__] = planguard.check(plan).unsafe
    assert [key for key, found in unsafe.items() if not found and key[1] != "late"] == []
    assert sum(found for key, found in unsafe.items() if key[1] == "late") == 2
