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
    """Both off-diagonals, without the corners of a ring."""
    return _window(weights, is_circular=False)


def _circular_halo(weights: Any) -> float:
    """Both off-diagonals and both corners: the last rank is the neighbor of the first."""
    return _window(weights, is_circular=True)


def _window(weights: Any, *, is_circular: bool) -> float:
    """Return the share of the neighbors' traffic, 0 where it is not a window of this kind.

    The corners tell a stencil whose border wraps around (ComScribe's Jacobi solver) from one that
    ends at the first and the last rank (its Game of Life). Of three ranks all are neighbors in a
    circle: that is not told from ``dense``.
    """
    import numpy as np

    rest, n = _off(weights), len(weights)
    if n < 3 + is_circular or not rest.any():
        return 0.0
    near = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    window, corners = near == 1, near == n - 1
    if bool(rest[corners].all()) != is_circular or bool(rest[corners].any()) != is_circular:
        return 0.0
    if is_circular:
        window = window | corners
    return float(rest[window].sum() / rest.sum()) if rest[window].all() else 0.0


def _master_worker(weights: Any) -> float:
    rest = _off(weights)
    if len(rest) < 3 or not rest.any():
        return 0.0
    spokes = (rest[0, 1:] > 0) | (rest[1:, 0] > 0)
    return float((rest[0].sum() + rest[:, 0].sum()) / rest.sum()) if spokes.all() else 0.0


def _staircase(weights: Any) -> float:
    """What each rank sends falls with its number, or what it exchanges with the next rank does.

    The second is ComScribe's Game of Life, run on 1, 2, ... 16 devices one after the other.
    """
    rest = _off(weights)
    if len(rest) < 3:
        return 0.0
    sides = (rest.sum(axis=1),) if not _halo(weights) else (rest.diagonal(1), rest.diagonal(-1))
    return float(all(a > b for side in sides for a, b in itertools.pairwise(side)))


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
    ("staircase", _staircase),
    ("halo window", _halo),
    ("circular halo window", _circular_halo),
    ("master-worker L", _master_worker),
    ("neighbor traffic", _neighbors),
)
