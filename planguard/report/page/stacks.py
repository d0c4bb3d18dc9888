"""Equal substructures: namespace subtrees of one shape, by the hash of Weisfeiler and Lehman.

Two subtrees whose operators have the same kinds and the same neighborhoods get the same hash, up to
three steps away; neighbors in execution order are then drawn once, as ``x k``.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from itertools import pairwise

STEPS = 3
_MARKS = ("/", ".", "-")

Label = tuple[int, str, str]


def stacks(nodes: list[Label], edges: list[tuple[int, int]]) -> list[list[list[int]]]:
    """Return runs of equal subtrees.

    Args:
        nodes: Block, namespace and kind of every operator, in execution order.
        edges: Edges as pairs of places in ``nodes``.

    Returns:
        Stacks of two or more subtrees, each a list of nodes; a node is in at most one stack.
    """
    subtrees: dict[tuple[int, str], list[int]] = defaultdict(list)
    for at, (block, space, _) in enumerate(nodes):
        for prefix in _prefixes(space):
            subtrees[block, prefix].append(at)
    taken: set[int] = set()
    out = []
    parents: dict[tuple[int, int], list[list[int]]] = defaultdict(list)
    for (block, prefix), own in subtrees.items():
        parents[block, len(_prefixes(prefix))].append(own)
    for _, siblings in sorted(parents.items()):
        for run in _runs(siblings, nodes, edges):
            members = {at for own in run for at in own}
            if not members & taken:
                taken |= members
                out.append(run)
    return out


def _prefixes(space: str) -> list[str]:
    """Return the namespaces around an operator, outermost first: ``a``, ``a/b``."""
    mark = next((m for m in _MARKS if m in space), None)
    if not space or mark is None:
        return [space] if space else []
    parts = space.split(mark)
    return [mark.join(parts[: depth + 1]) for depth in range(len(parts))]


def _runs(
    siblings: list[list[int]], nodes: list[Label], edges: list[tuple[int, int]]
) -> list[list[list[int]]]:
    ordered = sorted(siblings)
    hashes = [shape(own, nodes, edges) for own in ordered]
    runs = [[ordered[0]]] if ordered else []
    for (a, b), own in zip(pairwise(hashes), ordered[1:], strict=True):
        if a == b:
            runs[-1].append(own)
        else:
            runs.append([own])
    return [run for run in runs if len(run) > 1]


def shape(own: list[int], nodes: list[Label], edges: list[tuple[int, int]]) -> str:
    """Return the hash of a subtree: equal for equal structures, whatever the names."""
    inside = set(own)
    after: dict[int, list[int]] = defaultdict(list)
    before: dict[int, list[int]] = defaultdict(list)
    for source, target in edges:
        if source in inside and target in inside:
            after[source].append(target)
            before[target].append(source)
    labels = {at: nodes[at][2] for at in own}
    for _ in range(STEPS):
        labels = {
            at: _hash(
                labels[at],
                *sorted("<" + labels[n] for n in before[at]),
                *sorted(">" + labels[n] for n in after[at]),
            )
            for at in own
        }
    return _hash(*sorted(labels.values()))


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
