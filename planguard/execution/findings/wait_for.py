"""WaitForGraph: who waits for whom in a stuck state, as a networkx graph with a reason per edge.

Nodes are ``(rank, action)``. A stuck action has an edge to the action of every rank whose arrival
it lacks (AND-waits), and an action that has not been reached has one to the action its rank is
stuck at. A participant that never comes is the node ``(rank, None)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.execution.findings.locate import describe, locate
from planguard.execution.findings.members import describe_match
from planguard.execution.findings.stuck import StuckState
from planguard.execution.running.executor import Execution, execute
from planguard.execution.running.expand import expand
from planguard.options import EAGER_BYTES
from planguard.semantics.model import Scenario, find_model, lenient

if TYPE_CHECKING:
    import networkx as nx

    from planguard.plan.plan import Plan


def wait_for_graph(
    plan: Plan,
    model: str = "nccl",
    *,
    scenario: Scenario | None = None,
    eager_bytes: int = EAGER_BYTES,
) -> nx.DiGraph[Any]:
    """Return the wait-for graph of the stuck state of a plan; empty when the plan completes.

    Args:
        plan: The plan.
        model: Name of the execution model.
        scenario: Which of the model's executions; the one with the most progress if None.
        eager_bytes: Message threshold of the eager models, bytes.

    Returns:
        Node attributes: ``rank``, ``text`` and ``stuck``. Edge attributes: ``why`` (a word of the
        result schema) and ``reason`` (a sentence).

    Raises:
        PlanError: PG907, for an unknown model.
    """
    found = find_model(model)
    chosen = scenario or lenient(found, eager_bytes)
    return graph_of(execute(plan, expand(plan), found, chosen, origins=True))


def graph_of(execution: Execution) -> nx.DiGraph[Any]:
    """Return the wait-for graph of one execution (made with ``origins=True``)."""
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph()
    if execution.completes:
        return graph
    state = StuckState(execution)
    for lane in state.match_of:
        _add_waits(graph, execution, state, lane)
    return graph


def _add_waits(graph: nx.DiGraph[Any], execution: Execution, state: StuckState, lane: int) -> None:
    here = state.place(lane)
    if here is None:
        return
    match = describe_match(execution, state.match_of[lane])
    at = locate(execution, here)
    node = (here.rank, here.action)
    graph.add_node(node, rank=here.rank, text=at.text, stuck=True)
    owing = set()
    for other, instruction in state.owed.get(state.match_of[lane], ()):
        owed, stands = state.place(other, instruction), state.place(other)
        if owed is None or (owed.rank, owed.action) == node:
            continue
        owing.add(owed.rank)
        target = (owed.rank, owed.action)
        graph.add_node(target, rank=owed.rank, text=locate(execution, owed).text, stuck=False)
        graph.add_edge(
            node,
            target,
            why=state.why(lane),
            reason=f"rank {here.rank} is in {at.op} and needs rank {owed.rank} in "
            f"{describe(execution, match)}",
        )
        if stands is not None and (stands.rank, stands.action) != target:
            behind = (stands.rank, stands.action)
            graph.add_node(
                behind, rank=stands.rank, text=locate(execution, stands).text, stuck=True
            )
            graph.add_edge(
                target, behind, why="queue", reason=f"rank {owed.rank} gets there only after this"
            )
    _add_absent(graph, execution, state, lane, node, owing)


def _add_absent(
    graph: nx.DiGraph[Any],
    execution: Execution,
    state: StuckState,
    lane: int,
    node: tuple[int, int],
    owing: set[int],
) -> None:
    match = state.match_of[lane]
    if len(state.owed.get(match, ())) >= execution.state.need[match]:
        return
    described = describe_match(execution, match)
    waiting = {state.place(other) for other, m in state.match_of.items() if m == match}
    present = owing | {place.rank for place in waiting if place is not None}
    for rank in described.ranks:
        if rank not in present and described.type != "token":
            graph.add_node((rank, None), rank=rank, text="never takes part", stuck=False)
            graph.add_edge(
                node,
                (rank, None),
                why="exited",
                reason=f"rank {rank} never takes part in {describe(execution, described)}",
            )
