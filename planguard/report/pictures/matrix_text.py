"""Communication matrices in the terminal: one digit per cell, the largest pairs in numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planguard.simulate.patterns import patterns
from planguard.words import size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.simulate.matrix import Matrix

WIDEST = 64
"""Most columns that are drawn; larger matrices are told by their largest pairs."""
PAIRS = 8


def matrix_text(matrix: Matrix) -> str:
    """Return a matrix of bytes as text, sender on x and receiver on y (ComScribe).

    A cell is ``.`` for no traffic, ``0`` for messages without bytes, else 1 to 9 on a log scale.
    """
    lines = [
        (
            f"{matrix.title}: {size(matrix.total_bytes)} in {int(matrix.counts.sum()):,} messages "
            f"({matrix.algorithm}, {matrix.basis})"
        )
    ]
    found = patterns(matrix)
    if found:
        told = ", ".join(f"{p.name} ({p.confidence:.0%})" for p in found)
        lines.append(f"  pattern: {told}")
    if len(matrix.labels) <= WIDEST:
        lines += _grid(matrix)
    lines += _largest(matrix)
    return "\n".join(lines) + "\n"


def _grid(matrix: Matrix) -> Iterator[str]:
    width = max(len(label) for label in matrix.labels)
    for row in range(width):
        heads = [label.rjust(width)[row] for label in matrix.labels]
        yield "  " + " " * width + "   " + " ".join(heads) + ("   <- sender" if not row else "")
    top = _step(matrix.bytes)
    for receiver, label in enumerate(matrix.labels):
        cells = [
            _digit(int(matrix.bytes[sender, receiver]), int(matrix.counts[sender, receiver]), top)
            for sender in range(len(matrix.labels))
        ]
        yield "  " + label.rjust(width) + " | " + " ".join(cells)
    low = size(max(1, round(10 ** (top / 9))))
    yield f"  scale: . none, 0 no bytes, 1 up to {low} ... 9 up to {size(int(matrix.bytes.max()))}"


def _step(numbers: Any) -> float:
    return math.log10(1 + int(numbers.max()))


def _digit(moved: int, messages: int, top: float) -> str:
    if not messages:
        return "."
    if not moved:
        return "0"
    return str(min(9, max(1, math.ceil(9 * math.log10(1 + moved) / top))))


def _largest(matrix: Matrix) -> Iterator[str]:
    import numpy as np

    order = np.argsort(-matrix.bytes, axis=None, kind="stable")[:PAIRS]
    pairs = [divmod(int(at), len(matrix.labels)) for at in order]
    for src, dst in sorted(pairs, key=lambda p: (-int(matrix.bytes[p]), p)):
        moved, messages = int(matrix.bytes[src, dst]), int(matrix.counts[src, dst])
        if moved:
            names = f"{matrix.labels[src]} -> {matrix.labels[dst]}"
            yield f"  {names:>12}  {size(moved):>12}  {messages:,} messages"
