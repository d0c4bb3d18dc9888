"""Symmetric causes are one bug: fold them, keep the one with the lowest ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planguard.execution.classify import Cause


def fold(causes: tuple[Cause, ...]) -> list[Cause]:
    """Return one cause per shape; the ranks of the others go to ``Finding.equivalent``.

    Args:
        causes: Causes in report order. Two have one shape when their code is the same and the
            same instructions of the same rank programs are involved.
    """
    first: dict[tuple[object, ...], Cause] = {}
    others: dict[tuple[object, ...], list[tuple[int, ...]]] = {}
    for cause in causes:
        if cause.shape in first:
            others.setdefault(cause.shape, []).append(cause.finding.ranks)
        else:
            first[cause.shape] = cause
    return [
        replace(cause, finding=replace(cause.finding, equivalent=tuple(others.get(shape, ()))))
        for shape, cause in first.items()
    ]
