"""All rows."""

from __future__ import annotations

from user_cases import branches, messages, overlap, pipelines

CASES = tuple(
    sorted(
        (*pipelines.CASES, *messages.CASES, *overlap.CASES, *branches.CASES),
        key=lambda case: case.number,
    )
)
