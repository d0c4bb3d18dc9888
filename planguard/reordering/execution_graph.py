"""The execution graph: every action, what is issued before what and who meets whom, with reasons.

dl2 (FSE Companion '25) calls this the execution graph. Nodes are ``(rank, action)``, edges carry
``why`` and a sentence. It is made from the plan alone, before anything is decided; what a stuck
execution waits for is another graph (``planguard.execution.findings.wait_for``).
"""

from __future__ import annotations

import itertools
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from planguard.arguments import PLAN, arguments
from planguard.execution.running.expand import expand
from planguard.plan.fixed import AT
from planguard.plan.vocabulary import HANDLES
from planguard.reordering.branches.assignments import flat_tree, leaves
from planguard.reordering.orders.rounds import channel_of, queues_of
from planguard.semantics.model import find_model

if TYPE_CHECKING:
    from collections.abc import Iterable

    import networkx as nx

    from planguard.plan.plan import Plan

REASONS = {
    "program": "the program issues one after the other",
    "fence": "a block ends before what follows it, and begins after what precedes it",
    "after": "`after` names it",
    "thread": "a thread keeps its order",
    "fork": "threads begin after what precedes them",
    "join": "the end of the threads joins all",
    "branch": "a branch keeps its order and its place in the program",
    "handle": "the handle is started before it is waited for, tested or dropped",
    "data": "the computation needs its result",
    "event": "the event is recorded before it is waited for",
    "host-sync": "the host waits for everything that was issued",
    "match": "both are members of one match, in the written order",
}
"""Every value of ``why``."""

_BLOCKS = {"unordered": ("body", "fence", "fence"), "threads": ("threads", "fork", "join")}


@arguments(plan=PLAN)
def execution_graph(plan: Plan, model: str = "nccl") -> nx.DiGraph[Any]:
    """Return the execution graph of a plan.

    Args:
        plan: The plan; loops are unrolled.
        model: Name of the execution model: whether tags separate channels, and what host
            synchronization means, depend on it.

    Returns:
        Node attributes: ``rank``, ``op``. Edge attributes: ``why`` (a key of ``REASONS``) and
        ``reason``. An edge between two actions of a rank means *is issued before*; edges between
        ranks come in both directions and join the members of a match. Where the order is open,
        matches are those of the written order.

    Raises:
        PlanError: PG907, for an unknown model.
    """
    import networkx as nx

    rules = find_model(model)
    graph: nx.DiGraph[Any] = nx.DiGraph()
    flat = flat_tree(plan, expand(plan))
    for rank in range(plan.world_size):
        actions = flat["ranks"][str(rank)]["actions"]
        walk = _Walk(graph, rank)
        walk.chain(actions, set(), "program", "program")
        walk.named(list(leaves(actions)), syncs=not rules.blocks_host)
    _matches(graph, flat, use_tags=rules.use_tags)
    return graph


class _Walk:
    """Adds the actions of one rank."""

    def __init__(self, graph: nx.DiGraph[Any], rank: int) -> None:
        self.graph, self.rank = graph, rank
        self.names: dict[str, set[int]] = {}

    def chain(self, items: Iterable[Any], before: set[int], enter: str, inside: str) -> set[int]:
        """Add a chain; return the actions that end it."""
        why = enter
        for item in items:
            before, why = self._item(item, before, why), inside
            if item["op"] in _BLOCKS:
                why = _BLOCKS[item["op"]][2]
        return before

    def _item(self, item: dict[str, Any], before: set[int], why: str) -> set[int]:
        if item["op"] in _BLOCKS:
            field, enter, _ = _BLOCKS[item["op"]]
            inside = "thread" if item["op"] == "threads" else "program"
            ends = [
                self.chain(entry if isinstance(entry, list) else [entry], before, enter, inside)
                for entry in item[field]
            ]
            earlier = [one for name in item.get("after", ()) for one in self.names[name]]
            within = {one[AT] for one in leaves([item])}
            for one, other in itertools.product(earlier, within):
                self.edge(one, other, "after")
            # A block with nothing in it passes on what it comes after.
            last = set().union(*ends) if within else set().union(before, earlier, *ends)
            if "id" in item:
                self.names[item["id"]] = last | within
            return last
        if item["op"] == "choice":
            ends = [self.chain(one, before, "branch", "branch") for one in item["branches"]]
            return set().union(*ends) or before
        self.graph.add_node((self.rank, item[AT]), rank=self.rank, op=item["op"])
        if "id" in item:
            self.names[item["id"]] = {item[AT]}
        for first in before:
            self.edge(first, item[AT], why)
        return {item[AT]}

    def edge(self, first: int, second: int, why: str) -> None:
        """Add an edge inside the rank; the first reason is kept."""
        ends = (self.rank, first), (self.rank, second)
        if first != second and not self.graph.has_edge(*ends):
            self.graph.add_edge(*ends, why=why, reason=REASONS[why])

    def named(self, actions: list[dict[str, Any]], *, syncs: bool) -> None:
        """Add what names order: `after`, handles, results, events, host synchronization."""
        started: dict[str, int] = {}
        recorded: dict[str, int] = {}
        issued: list[int] = []
        for item in actions:
            at, work = item[AT], item.get("work", [])
            names = [work] if isinstance(work, str) else work
            for name in item.get("after", ()):
                for first in self.names[name]:
                    self.edge(first, at, "after")
            for name in item.get("deps", ()):
                for first in self.names[name]:
                    self.edge(first, at, "data")
            for name in names:
                if item["op"] not in HANDLES:
                    started[name] = at
                elif name in started:
                    self.edge(started[name], at, "handle")
            if item["op"] == "event_record":
                recorded[item["event"]] = at
            elif item["op"] == "event_wait" and item["event"] in recorded:
                self.edge(recorded[item["event"]], at, "event")
            elif item["op"] == "host_sync" and syncs:
                for first in issued:
                    self.edge(first, at, "host-sync")
            issued.append(at)


def _matches(graph: nx.DiGraph[Any], flat: dict[str, Any], *, use_tags: bool) -> None:
    """Join the members of every match: k-th calls of a communicator, k-th ends of a channel."""
    from planguard.reordering.blocks import Leaf

    met: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for name, body in flat["ranks"].items():
        rank, counts = int(name), dict[Any, int]()
        for item in leaves(body["actions"]):
            if any(part.get("peer") == "any" for part in item.get("ops", [item])):
                continue
            for queue in queues_of(Leaf(item, item[AT]), use_tags=use_tags):
                place = counts[queue] = counts.get(queue, -1) + 1
                met.setdefault((*channel_of(queue, rank), place), []).append((rank, item[AT]))
    for members in met.values():
        for one, other in pairwise(members):
            if one[0] != other[0]:
                for ends in ((one, other), (other, one)):
                    graph.add_edge(*ends, why="match", reason=REASONS["match"])
