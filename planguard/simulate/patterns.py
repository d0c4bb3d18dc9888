"""Names for what a matrix shows: closed ring, open ring, halo window, ... (ComScribe).

A label is a statement about which cells carry traffic, with a confidence: the share of the bytes
that the pattern explains. ComScribe's authors read these by eye.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.simulate.matrix import Matrix


@dataclass(frozen=True)
class Pattern:
    """A label. ``confidence`` is the share of the traffic it explains, 0 to 1."""

    name: str
    confidence: float


LEAST = 0.9
"""A pattern that explains less of the traffic is not named."""


def patterns(matrix: Matrix) -> tuple[Pattern, ...]:
    """Return the patterns of a matrix, the most specific first; none for an empty one."""
    weights = matrix.bytes if matrix.bytes.any() else matrix.counts
    if not weights.any():
        return ()
    if matrix.by_node:
        weights = _off(weights)
        if not weights.any():
            return ()
    host = matrix.labels[:1] == ("H",)
    found = [Pattern(name, confidence) for name, confidence in _host(weights) if host]
    inner = weights[1:, 1:] if host else weights
    if not inner.any():
        return tuple(found)
    for name, rule in _RULES:
        confidence = rule(inner)
        if confidence >= LEAST:
            return (*found, Pattern(name, round(confidence, 3)))
    return tuple(found)


def _host(weights: Any) -> list[tuple[str, float]]:
    total, touching = weights.sum(), weights[0].sum() + weights[:, 0].sum()
    if touching == total:
        return [("scatter-gather L", 1.0)]
    if weights[0, 1:].any() and not weights[1:, 0].any():
        return [("host feeds the devices", float(touching / total))]
    return [("host-staged", float(touching / total))] if touching else []


def _off(weights: Any) -> Any:
    """Return a copy without the diagonal: local copies are no pattern of communication."""
    import numpy as np

    rest = weights.copy()
    np.fill_diagonal(rest, 0)
    return rest


def _ring_order(used: Any) -> list[int] | None:
    """Return the ranks along the ring or chain that the used cells form, or None."""
    out, into = used.sum(axis=1), used.sum(axis=0)
    busy = [r for r in range(len(used)) if out[r] or into[r]]
    if len(busy) < 3 or out.max() > 1 or into.max() > 1:
        return None
    starts = [r for r in busy if not into[r]] or busy[:1]
    if len(starts) > 1:
        return None
    order = [starts[0]]
    while len(order) < len(busy):
        following = used[order[-1]].nonzero()[0]
        if not len(following) or int(following[0]) in order:
            return None
        order.append(int(following[0]))
    return order


def _closed_ring(weights: Any) -> float:
    rest = _off(weights) > 0
    order = _ring_order(rest)
    return float(order is not None and bool(rest[order[-1], order[0]]))


def _open_ring(weights: Any) -> float:
    rest = _off(weights) > 0
    order = _ring_order(rest)
    return float(order is not None and not rest[order[-1], order[0]])


def _dense(weights: Any) -> float:
    import numpy as np

    rest = _off(weights)
    cells = rest[~np.eye(len(rest), dtype=bool)]
    if len(rest) < 3 or not cells.all():
        return 0.0
    return float(cells.min() / cells.max()) if cells.max() else 0.0


def _halo(weights: Any) -> float:
    """Both off-diagonals, with or without the circular corners."""
    import numpy as np

    rest, n = _off(weights), len(weights)
    if n < 3 or not rest.any():
        return 0.0
    near = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    window = (near == 1) | (near == n - 1)
    both = rest[near == 1]
    return float(rest[window].sum() / rest.sum()) if both.all() else 0.0


def _master_worker(weights: Any) -> float:
    rest = _off(weights)
    if len(rest) < 3 or not rest.any():
        return 0.0
    spokes = (rest[0, 1:] > 0) | (rest[1:, 0] > 0)
    return float((rest[0].sum() + rest[:, 0].sum()) / rest.sum()) if spokes.all() else 0.0


def _staircase(weights: Any) -> float:
    """What each rank sends falls with its number."""
    sent = _off(weights).sum(axis=1)
    falls = all(a > b for a, b in itertools.pairwise(sent))
    return float(len(sent) > 2 and falls)


def _diagonal(weights: Any) -> float:
    return float(weights.trace() / weights.sum())


def _neighbors(weights: Any) -> float:
    """Most of the traffic goes to the next or the previous rank."""
    import numpy as np

    rest, n = _off(weights), len(weights)
    if not rest.any():
        return 0.0
    near = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return float(rest[(near == 1) | (near == n - 1)].sum() / rest.sum())


_RULES: tuple[tuple[str, Callable[[Any], float]], ...] = (
    ("local copies", _diagonal),
    ("closed ring", _closed_ring),
    ("open ring", _open_ring),
    ("dense", _dense),
    ("halo window", _halo),
    ("master-worker L", _master_worker),
    ("staircase", _staircase),
    ("neighbor traffic", _neighbors),
)
