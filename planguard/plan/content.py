"""What occurs in a plan, whatever rank it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planguard.plan.actions import Kind
    from planguard.plan.plan import Plan


def has_kind(plan: Plan, kind: Kind) -> bool:
    """Tell whether an instruction of this kind occurs in a plan."""
    return kind in plan.kinds
