"""Reads of results that are still in flight, and works nobody waits for, in one rank's graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .communication import build
from .flatten import TUPLE, flatten, graph_prefix
from .operations import find_operation, group_argument, is_wait
from .storage import GETITEM, Storage, is_view, leaves

if TYPE_CHECKING:
    from .model import FxNode, RankProgram


@dataclass(frozen=True)
class Hazard:
    """A node that uses the result of a communication before its wait.

    Attributes:
        node: The node that reads or writes it.
        work: The node that issued the communication.
    """

    node: str
    work: str


@dataclass(frozen=True)
class Flow:
    """What the graphs of a rank do to works in flight.

    Attributes:
        hazards: Uses before the wait, in order.
        unwaited: Communications never waited for.
        waits: For every communication, the node that waits for it.
        nodes: Nodes by name, in order.
        returned: Communications that the graphs return in flight: the caller is to wait for them.
    """

    hazards: tuple[Hazard, ...]
    unwaited: tuple[str, ...]
    waits: dict[str, str]
    nodes: dict[str, FxNode]
    returned: tuple[str, ...] = ()


def flow(program: RankProgram) -> Flow:
    """Follow the works of one rank through its graphs; subgraphs of branches are left out."""
    storage = Storage()
    hazards: list[Hazard] = []
    waits: dict[str, str] = {}
    nodes: dict[str, FxNode] = {}
    kept: dict[str, str] = {}
    for place, graph in enumerate(program.graphs):
        prefix = graph_prefix(program.graphs, place)
        outputs: list[str] = []
        for node in flatten(graph, prefix):
            nodes[node.name] = node
            origin = kept.get(node.name.removeprefix(prefix))
            if node.op == "placeholder" and origin is not None:
                storage.roots[node.name] = storage.root(origin)
            elif node.op == "output":
                outputs += node.inputs()
            elif is_wait(node):
                for work in storage.wait(storage.of(node.args[0]) if node.args else ()):
                    waits[work] = node.name
                storage.bind(node)
            else:
                hazards += _uses(node, storage)
                _step(node, nodes, program, storage)
        kept.update({name.removeprefix(prefix): name for name in outputs})
    found = (work for name in kept.values() for work in storage.wait(storage.root(name)))
    returned = tuple(dict.fromkeys(found))
    unwaited = [work for work in storage.unwaited() if work not in returned]
    return Flow(tuple(hazards), tuple(unwaited), waits, nodes, returned)


def _uses(node: FxNode, storage: Storage) -> list[Hazard]:
    if is_view(node) or node.target in (TUPLE, GETITEM) or node.op == "get_attr":
        return []
    found = []
    for name in node.inputs():
        for root in leaves(storage.root(name)):
            found += [Hazard(node.name, work) for work in storage.writers(root)]
    return list(dict.fromkeys(found))


def _step(node: FxNode, nodes: dict[str, FxNode], program: RankProgram, storage: Storage) -> None:
    place = group_argument(node)
    if find_operation(node) is None or place is None or place[1] not in program.groups:
        storage.bind(node)
        return
    talk = build(node, nodes, program.groups, storage)
    storage.roots[node.name] = talk.result
    if not talk.blocking:
        storage.issue(node.name, talk.result)
        if talk.wait_on_input:
            storage.issue(node.name, talk.input_roots, reads_only=True)
