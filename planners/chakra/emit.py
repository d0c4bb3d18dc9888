"""Workloads to plans: a rank is a queue of a rank, and what a node waits for is a message."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .model import COLLECTIVE, SEND

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.building.program import ProgramBuilder
    from planguard.plan.plan import Plan

    from .model import Node, Workload
    from .options import ChakraOptions

Queue = tuple[int, str, str, int]
"""Rank; ``group``, ``send`` or ``recv``; the group or the other rank; the tag."""
Row = dict[str, Any]
"""An action, as a plan file has it."""
_ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})


class Queues:
    """The queues of a workload and the nodes in them.

    The communications of a process group are one queue, as are messages to or from a rank with
    one tag: they meet their counterparts in order. A queue does one thing after the other;
    different queues only wait for each other where a dependency says so.

    Attributes:
        nodes: Nodes of every queue, in order.
        ranks: Queue to its rank in the plan.
        groups: Process group to its ranks in the workload.
        guessed: Process groups whose members are those that use them.
        open: Neighbors in a queue that no dependency puts in order.
        edges: Per rank, node to the communications that it waits for.
    """

    def __init__(self, workload: Workload) -> None:
        self.nodes: dict[Queue, list[Node]] = {}
        self.edges: list[dict[int, tuple[int, ...]]] = []
        self.open: list[tuple[int, Node, Node]] = []
        users: dict[str, set[int]] = defaultdict(set)
        for rank, nodes in enumerate(workload.nodes):
            self.edges.append(_ancestors(nodes))
            for node in nodes:
                if node.communicates:
                    self.nodes.setdefault(queue_of(rank, node), []).append(node)
                    if node.kind == COLLECTIVE:
                        users[node.group].add(rank)
        everyone = tuple(range(len(workload.nodes)))
        self.groups: dict[str, tuple[int, ...]] = {}
        self.guessed: list[str] = []
        for name, ranks in users.items():
            known = everyone if name == "" else workload.groups.get(name)
            if known is None and len(ranks) < len(everyone):
                self.guessed.append(name)
            self.groups[name] = tuple(sorted(ranks | set(known or ())))
        self._add_missing()
        self.ranks = {queue: rank for rank, queue in enumerate(sorted(self.nodes))}
        for queue, queued in self.nodes.items():
            self.open += _unordered(queue[0], queued, self.edges[queue[0]])

    def _add_missing(self) -> None:
        """Add the queues that the others need a counterpart in, without nodes."""
        for name, ranks in self.groups.items():
            for rank in ranks:
                self.nodes.setdefault((rank, "group", name, 0), [])
        for rank, kind, peer, tag in list(self.nodes):
            if kind != "group":
                other = "recv" if kind == "send" else "send"
                self.nodes.setdefault((int(peer), other, str(rank), tag), [])


def queue_of(rank: int, node: Node) -> Queue:
    """Return the queue of a communication of a rank."""
    if node.kind == COLLECTIVE:
        return rank, "group", node.group, 0
    return rank, "send" if node.kind == SEND else "recv", str(node.peer), node.tag


def _ancestors(nodes: tuple[Node, ...]) -> dict[int, tuple[int, ...]]:
    """Return, per node, the communications that must be done before, nearest ones only."""
    nearest: dict[int, tuple[int, ...]] = {}
    communicates = {node.number for node in nodes if node.communicates}
    for node in nodes:
        found: dict[int, None] = {}
        for dep in node.deps:
            found |= {dep: None} if dep in communicates else dict.fromkeys(nearest[dep])
        nearest[node.number] = tuple(found)
    return nearest


def _unordered(
    rank: int, nodes: list[Node], edges: dict[int, tuple[int, ...]]
) -> list[tuple[int, Node, Node]]:
    return [
        (rank, first, second)
        for first, second in pairwise(nodes)
        if not _reaches(first.number, second.number, edges)
    ]


def _reaches(first: int, second: int, edges: dict[int, tuple[int, ...]]) -> bool:
    """Tell whether a communication must be done before another."""
    open_nodes, seen = [second], {second}
    while open_nodes:
        for dep in edges[open_nodes.pop()]:
            if dep == first:
                return True
            if dep not in seen:
                seen.add(dep)
                open_nodes.append(dep)
    return False


def emit(workload: Workload, options: ChakraOptions, builder: type[PlanBuilder]) -> Plan:
    """Build the plan of a workload.

    Raises:
        PlanError: The plan exceeds a limit of the plan format.
    """
    queues = Queues(workload)
    plan = builder(
        len(queues.ranks) or len(workload.nodes),
        name=options.name or workload.name,
        model=options.model or "gloo",
        producer="chakra",
    )
    names = {}
    for name, ranks in queues.groups.items():
        members = [queues.ranks[rank, "group", name, 0] for rank in ranks]
        names[name] = plan.group(f"group {name or 'of all ranks'}", members)
    writer = _Writer(workload, queues, options, names)
    for queue, rank in queues.ranks.items():
        writer.write(queue, plan.program(rank))
    if not queues.ranks:  # nothing communicates: the verdict says that there is nothing to check
        for rank in range(len(workload.nodes)):
            plan.program(rank)
    _ledger(plan, workload, queues, options)
    return plan.build()


class _Writer:
    def __init__(
        self, workload: Workload, queues: Queues, options: ChakraOptions, names: dict[str, str]
    ) -> None:
        self.workload = workload
        self.queues = queues
        self.options = options
        self.names = names
        self.home: list[dict[int, Queue]] = [{} for _ in workload.nodes]
        for queue, nodes in queues.nodes.items():
            for node in nodes:
                self.home[queue[0]][node.number] = queue
        self.behind: list[dict[int, list[int]]] = []
        self.tags: list[dict[tuple[int, int], int]] = []
        for rank, edges in enumerate(queues.edges):
            behind: dict[int, list[int]] = defaultdict(list)
            for number in self.home[rank]:
                for dep in edges[number]:
                    if self.home[rank][dep] != self.home[rank][number]:
                        behind[dep].append(number)
            self.behind.append(behind)
            pairs = [(dep, one) for dep, found in behind.items() for one in found]
            self.tags.append({pair: at for at, pair in enumerate(pairs)})

    def write(self, queue: Queue, program: ProgramBuilder) -> None:
        """Write the program of a queue."""
        rank = queue[0]
        rows: list[Row] = []
        for node in self.queues.nodes[queue]:
            src = (self.workload.files[rank], node.number, f"rank {rank} {node.name}")
            parts = [
                self._flag("recv", rank, (dep, node.number), dep)
                for dep in self.queues.edges[rank][node.number]
                if self.home[rank][dep] != queue
            ]
            parts.append(self._communicate(queue, node))
            behind = self.behind[rank].get(node.number, ())
            parts += [self._flag("isend", rank, (node.number, one), one) for one in behind]
            for part in parts:
                part["src"] = src
            rows += parts
        program.extend(rows)

    def _flag(self, op: str, rank: int, pair: tuple[int, int], end: int) -> Row:
        peer = self.queues.ranks[self.home[rank][end]]
        label = f"rank {rank}: node {pair[0]} before node {pair[1]}"
        return {"op": op, "peer": peer, "tag": self.tags[rank][pair], "bytes": 1, "label": label}

    def _communicate(self, queue: Queue, node: Node) -> Row:
        if node.kind == COLLECTIVE:
            fields: Row = {"op": node.op, "group": self.names[node.group]}
            if self.options.labels == "names" and node.name:
                fields["label"] = node.name
            if node.op != "barrier":
                fields["bytes"] = node.size
            if node.op in _ROOTED:
                members = self.queues.groups[node.group]
                root = node.root if node.root in members else members[0]
                fields["root"] = self.queues.ranks[root, "group", node.group, 0]
            return fields
        rank, kind, peer, tag = queue
        other = "recv" if kind == "send" else "send"
        to = self.queues.ranks[int(peer), other, str(rank), tag]
        op = "isend" if kind == "send" and self.options.sends == "buffered" else kind
        return {"op": op, "peer": to, "tag": tag, "bytes": node.size}


def _ledger(plan: PlanBuilder, workload: Workload, queues: Queues, options: ChakraOptions) -> None:
    shown = [
        f"{rank} is {queue[1]} {queue[2]} of rank {queue[0]}".replace("  ", " ")
        for queue, rank in list(queues.ranks.items())[:6]
    ]
    more = ", ..." if len(queues.ranks) > len(shown) else ""
    plan.approximate("queues", f"a rank is a queue: {', '.join(shown)}{more}", scope="plan")
    nodes = [node for rank in workload.nodes for node in rank]
    if any(node.communicates and node.kind != COLLECTIVE for node in nodes):
        plan.approximate("no-labels", "messages are told apart by position only", scope="plan")
    rootless = sum(node.op in _ROOTED and node.root is None for node in nodes)
    if rootless:
        message = f"{rootless} collectives do not name their root: taken to be the first member"
        plan.approximate("no-root", message, scope="plan")
    if queues.guessed:
        message = f"no list of members of {', '.join(queues.guessed[:6])}: taken to be its users"
        plan.approximate("members", message, direction="under", scope="plan")
    if queues.open:
        rank, first, second = queues.open[0]
        example = f"for example nodes {first.number} and {second.number} of rank {rank}"
        if options.order == "ids":
            message = f"{len(queues.open)} orders in a queue are those of the ids, {example}"
            plan.approximate("order", message, scope="plan")
        else:
            message = f"{len(queues.open)} orders in a queue are left open, {example}"
            plan.approximate("order", message, direction="under", scope="plan")
