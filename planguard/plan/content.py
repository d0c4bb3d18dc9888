"""What occurs in a plan, whatever rank it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planguard.plan.actions import Kind
    from planguard.plan.plan import Plan

KIND_MASK = 63
"""Mask of the kind in the first word of an instruction."""


def has_kind(plan: Plan, kind: Kind) -> bool:
    """Tell whether an instruction of this kind occurs in a plan."""
    return any(kind in (op & KIND_MASK for op in set(p.code[::6])) for p in plan.code.programs)
