"""Who sends how many bytes to whom inside one collective: ring, tree and pairwise, exact integers.

The costs are those of the textbook algorithms (ring all-reduce: 2(n-1)/n of the tensor per edge).
Which algorithm a library really picks depends on size and topology, so the choice is a parameter
and every picture prints it: modeled, not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ALGORITHMS = ("ring", "tree", "pairwise", "direct")

ALL_REDUCE = "all_reduce"
ALL_GATHER = "all_gather"
REDUCE_SCATTER = "reduce_scatter"


@dataclass(frozen=True)
class Call:
    """One collective call as one member sees it.

    Attributes:
        primitive: Canonical name: ``all_gather_into_tensor`` is ``all_gather``.
        size: Members of the group.
        position: Place of this member in the group, 0-based.
        bytes: Size as the plan file defines it: per-rank input of ``all_gather`` and
            ``all_reduce``, per-rank output of ``reduce_scatter``, what each receiver gets of
            ``scatter``, the whole tensor otherwise.
        root: Place of the root in the group.
        splits: Input splits of an uneven all-to-all, elements.
    """

    primitive: str
    size: int
    position: int
    bytes: int
    root: int = 0
    splits: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Edge:
    """What one member sends to another in one call.

    Attributes:
        to: Place of the receiver in the group.
        bytes: Bytes sent.
        transfers: Number of messages.
    """

    to: int
    bytes: int
    transfers: int


def outgoing(call: Call, algorithm: str = "ring") -> list[Edge]:
    """Return what a member sends in one call; over all members, the edges of the call.

    Args:
        call: The call.
        algorithm: ``ring``, ``tree``, ``pairwise`` or ``direct`` (rooted collectives
            as one message per rank). A primitive that has no form under it
            (an all-to-all on a ring) takes its natural one.
    """
    if call.size < 2:
        return []
    return _FORMS.get((call.primitive, algorithm), _RING[call.primitive])(call)


def chunk(total: int, parts: int, index: int) -> int:
    """Return the bytes of one of ``parts`` chunks; the last ones are short, so the sum is exact."""
    full = -(-total // parts)
    return max(0, min(full, total - index * full))


def _next(call: Call) -> int:
    return (call.position + 1) % call.size


def _ring_all_reduce(call: Call) -> list[Edge]:
    """Every chunk but two passes each edge twice: once reduced, once gathered."""
    n, at, total = call.size, call.position, call.bytes
    spared = chunk(total, n, (at + 1) % n) + chunk(total, n, (at + 2) % n)
    return [Edge(_next(call), 2 * total - spared, 2 * (n - 1))]


def _ring_parts(call: Call) -> list[Edge]:
    """Reduce-scatter and all-gather: n-1 parts of the per-rank size pass each edge."""
    return [Edge(_next(call), (call.size - 1) * call.bytes, call.size - 1)]


def _ring_broadcast(call: Call) -> list[Edge]:
    """An incomplete ring: nobody sends to the root."""
    return [] if _next(call) == call.root else [Edge(_next(call), call.bytes, 1)]


def _ring_reduce(call: Call) -> list[Edge]:
    """An incomplete ring: the root does not send."""
    return [] if call.position == call.root else [Edge(_next(call), call.bytes, 1)]


def _scatter(call: Call) -> list[Edge]:
    if call.position != call.root:
        return []
    return [Edge(to, call.bytes, 1) for to in range(call.size) if to != call.root]


def _gather(call: Call) -> list[Edge]:
    return [] if call.position == call.root else [Edge(call.root, call.bytes, 1)]


def _pairwise(call: Call) -> list[Edge]:
    """Every member sends its part to every other; the own part never leaves the device."""
    return [Edge(to, _part(call, to), 1) for to in range(call.size) if to != call.position]


def _part(call: Call, to: int) -> int:
    if call.splits is None:
        return chunk(call.bytes, call.size, to)
    elements = sum(call.splits)
    return call.bytes // elements * call.splits[to] if elements else 0


def _barrier(call: Call) -> list[Edge]:
    """A barrier moves nothing worth a byte; it counts."""
    return [Edge(_next(call), 0, 2 * (call.size - 1))]


def _chain(call: Call) -> list[Edge]:
    """A prefix reduction passes along the group once."""
    last = call.position == call.size - 1
    return [] if last else [Edge(call.position + 1, call.bytes, 1)]


def _parent(call: Call, place: int) -> int:
    """Return the parent in a binary tree over places, the root of the call at its top."""
    up = ((place - call.root) % call.size - 1) // 2
    return (up + call.root) % call.size


def _children(call: Call) -> list[int]:
    first = 2 * ((call.position - call.root) % call.size) + 1
    return [(c + call.root) % call.size for c in (first, first + 1) if c < call.size]


def _tree_down(call: Call) -> list[Edge]:
    return [Edge(child, call.bytes, 1) for child in _children(call)]


def _tree_up(call: Call) -> list[Edge]:
    if call.position == call.root:
        return []
    return [Edge(_parent(call, call.position), call.bytes, 1)]


def _tree_all_reduce(call: Call) -> list[Edge]:
    return _tree_up(call) + _tree_down(call)


def _pairwise_all_reduce(call: Call) -> list[Edge]:
    """Reduce-scatter by exchanging chunks, then all-gather of the own chunk."""
    n, own = call.size, chunk(call.bytes, call.size, call.position)
    return [Edge(to, chunk(call.bytes, n, to) + own, 2) for to in range(n) if to != call.position]


def _pairwise_parts(call: Call) -> list[Edge]:
    return [Edge(to, call.bytes, 1) for to in range(call.size) if to != call.position]


_RING: dict[str, Callable[[Call], list[Edge]]] = {
    ALL_REDUCE: _ring_all_reduce,
    ALL_GATHER: _ring_parts,
    REDUCE_SCATTER: _ring_parts,
    "broadcast": _ring_broadcast,
    "reduce": _ring_reduce,
    "scatter": _scatter,
    "gather": _gather,
    "all_to_all": _pairwise,
    "barrier": _barrier,
    "scan": _chain,
    "exscan": _chain,
}

_FORMS: dict[tuple[str, str], Callable[[Call], list[Edge]]] = {
    (ALL_REDUCE, "tree"): _tree_all_reduce,
    ("broadcast", "tree"): _tree_down,
    ("reduce", "tree"): _tree_up,
    ("broadcast", "direct"): _scatter,
    ("reduce", "direct"): _gather,
    (ALL_REDUCE, "pairwise"): _pairwise_all_reduce,
    (ALL_GATHER, "pairwise"): _pairwise_parts,
    (REDUCE_SCATTER, "pairwise"): _pairwise_parts,
}
