"""Communication matrices: dense numpy arrays of bytes and messages, per key and merged.

``bytes[src][dst]``: rows are senders, columns are receivers. Pictures turn this round, as ComScribe
does: sender on x, receiver on y.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.errors import UsageError, shorten
from planguard.simulate.traffic import HOST
from planguard.views import VIEWS

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.simulate.traffic import Traffic

LARGEST = 4096
"""Most rows of a dense matrix; larger worlds are shown by node."""
DRAWN = 256
"""Most rows of a matrix that a notebook draws: each cell is an element of its page."""


@dataclass(frozen=True)
class Matrix:
    """One matrix.

    Attributes:
        bytes: ``int64 [n, n]``, bytes from row to column.
        counts: ``int64 [n, n]``, messages from row to column.
        labels: Name of every row: ``H`` for the host, the rank, or ``node 3``.
        title: What is counted.
        algorithm: How collectives were taken apart.
        basis: ``modeled`` or ``measured``.
        by_node: Rows are nodes: the diagonal is what stays inside a node, no local copies.
    """

    bytes: Any
    counts: Any
    labels: tuple[str, ...]
    title: str
    algorithm: str
    basis: str
    by_node: bool = False

    @property
    def total_bytes(self) -> int:
        """Sum of all bytes."""
        return int(self.bytes.sum())

    def _repr_html_(self) -> str:
        """Return the matrix as a picture, for a notebook; of a very large one what it holds."""
        rows = len(self.labels)
        if rows > DRAWN:
            return (
                f"<p>{rows:,} x {rows:,}, {self.total_bytes:,} bytes ({self.algorithm}, "
                f"{self.basis}): more rows than are drawn; by_node=True has fewer</p>"
            )
        return str(VIEWS["picture"](self))

    def to_dataframe(self, field: str = "bytes") -> Any:
        """Return bytes or counts as a pandas DataFrame, senders as index, receivers as columns.

        Args:
            field: ``bytes`` or ``counts``.

        Raises:
            ImportError: pandas is not installed.
            UsageError: There is no such field.
        """
        import pandas as pd  # type: ignore[import-untyped]

        if field not in ("bytes", "counts"):
            raise UsageError(f"a matrix has no {shorten(field)}", hint="bytes or counts")
        names = list(self.labels)
        index, columns = pd.Index(names, name="sender"), pd.Index(names, name="receiver")
        return pd.DataFrame(getattr(self, field), index=index, columns=columns)


def matrix(traffic: Traffic, *, title: str = "all", **wanted: str) -> Matrix:
    """Return the matrix of the traffic whose key has the given fields; all of it by default.

    The host's row and column come first, and only where something moves to or from the host.

    Args:
        traffic: The traffic.
        title: Title of the picture.
        wanted: Fields of ``Key``, for example ``primitive="all_reduce"``.

    Raises:
        UsageError: More than ``LARGEST`` ranks: use ``by_node``; or nothing is called so.
    """
    edges = traffic.total(**wanted)
    if traffic.world_size > LARGEST:
        message = f"a matrix of {traffic.world_size:,} ranks"
        raise UsageError(message, hint="ask for one row per node: by_node=True")
    with_host = any(HOST in pair for pair in edges)
    labels = (["H"] if with_host else []) + [str(rank) for rank in range(traffic.world_size)]
    place = {rank: rank + with_host for rank in range(traffic.world_size)} | {HOST: 0}
    return _dense(edges, place, tuple(labels), title, traffic)


def by_node(traffic: Traffic, plan: Plan, *, title: str = "by node", **wanted: str) -> Matrix:
    """Return the matrix between nodes; traffic inside a node is its diagonal.

    Args:
        traffic: The traffic of the plan.
        plan: The plan; its topology says where a rank runs, else its mesh (``rolled``).
        title: Title of the picture.
        wanted: Fields of ``Key``.
    """
    row, labels = rolled(plan)
    edges: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for (src, dst), (size, messages) in traffic.total(**wanted).items():
        if HOST in (src, dst):
            continue
        cell = edges[row[src], row[dst]]
        cell[0] += size
        cell[1] += messages
    merged = {pair: (cell[0], cell[1]) for pair, cell in edges.items()}
    found = _dense(merged, {i: i for i in range(len(labels))}, labels, title, traffic)
    return replace(found, by_node=True)


ROLLED = 256
"""Most rows of a matrix that is rolled up along the mesh."""


def rolled(plan: Plan) -> tuple[list[int], tuple[str, ...]]:
    """Return the row of every rank in a matrix of few rows, and their names.

    Rows are the nodes of the topology. Where it names none, they are the coordinates of the mesh:
    of as many dimensions, from the last one, as give at most ``ROLLED`` rows; ranks that differ in
    the others share a row.
    """
    node, mesh = nodes(plan), plan.mesh
    if mesh is None or any(name is not None for name in node.values()):
        names = sorted(set(node.values()), key=lambda n: (n is None, n))
        row = {name: at for at, name in enumerate(names)}
        labels = tuple("node ?" if name is None else f"node {name}" for name in names)
        return [row[node[rank]] for rank in range(plan.world_size)], labels
    kept: list[int] = []
    count = 1
    for dim in reversed(range(len(mesh.sizes))):
        if count * mesh.sizes[dim] <= ROLLED:
            kept.insert(0, dim)
            count *= mesh.sizes[dim]
    if not kept:
        return [0] * plan.world_size, ("all ranks",)
    rows = [
        sum(
            mesh.coordinate(rank, dim) * prod(mesh.sizes[d] for d in kept if d > dim)
            for dim in kept
        )
        for rank in range(plan.world_size)
    ]
    spots = itertools.product(*(range(mesh.sizes[dim]) for dim in kept))
    named = tuple(
        ",".join(f"{mesh.names[dim]}={at}" for dim, at in zip(kept, spot, strict=True))
        for spot in spots
    )
    return rows, named


def nodes(plan: Plan) -> dict[int, int | None]:
    """Return the node of every rank, None where the topology does not say."""
    places: dict[int, int | None] = dict.fromkeys(range(plan.world_size))
    topology = plan.document.topology
    if topology is UNSET or topology.ranks is UNSET:
        return places
    for place in topology.ranks:
        places[place.rank] = None if place.node is UNSET else place.node
    return places


def _dense(
    edges: dict[tuple[int, int], tuple[int, int]],
    place: dict[int, int],
    labels: tuple[str, ...],
    title: str,
    traffic: Traffic,
) -> Matrix:
    import numpy as np

    size = np.zeros((len(labels), len(labels)), np.int64)
    counts = np.zeros_like(size)
    for (src, dst), (moved, messages) in edges.items():
        size[place[src], place[dst]] += moved
        counts[place[src], place[dst]] += messages
    return Matrix(size, counts, labels, title, traffic.algorithm, traffic.basis)
