"""Symmetric causes are one bug: fold them, keep the one with the lowest ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planguard.execution.findings.cause import Cause
    from planguard.verdict import Finding


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
            same = [cause.finding.ranks, *cause.finding.equivalent]
            others.setdefault(cause.shape, []).extend(same)
        else:
            first[cause.shape] = cause
    return [
        replace(cause, finding=_with(cause.finding, others.get(shape, [])))
        for shape, cause in first.items()
    ]


def _with(finding: Finding, others: list[tuple[int, ...]]) -> Finding:
    return replace(finding, equivalent=(*finding.equivalent, *others))
