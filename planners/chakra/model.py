"""Plain records of a workload: what every rank does, and what waits for what."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

SEND, RECV, COLLECTIVE = 5, 6, 7


class Node(Struct, frozen=True):
    """One node of a rank's graph.

    Attributes:
        number: Its id.
        name: Its name.
        kind: ``SEND``, ``RECV`` or ``COLLECTIVE``; anything else does not communicate.
        deps: Ids of the nodes that must be done before, of data and of control.
        op: Operation of a collective.
        size: Bytes.
        peer: The other rank of a send or receive.
        tag: Tag of a send or receive.
        group: Name of the process group; empty for all ranks.
        root: Root of a collective, None where the file does not say.
    """

    number: int
    name: str
    kind: int
    deps: tuple[int, ...]
    op: str = ""
    size: int = 0
    peer: int = 0
    tag: int = 0
    group: str = ""
    root: int | None = None

    @property
    def communicates(self) -> bool:
        """Tell whether the node is a communication."""
        return self.kind in (SEND, RECV, COLLECTIVE)


@dataclass(frozen=True)
class Workload:
    """A whole workload.

    Attributes:
        name: What the names of its files begin with.
        files: File of every rank.
        nodes: Nodes of every rank, each after what it depends on, else by id.
        groups: Members of the process groups that are known.
    """

    name: str
    files: tuple[str, ...]
    nodes: tuple[tuple[Node, ...], ...]
    groups: dict[str, tuple[int, ...]]
