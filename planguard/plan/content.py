"""What occurs in a plan, whatever rank it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.plan.actions import KIND_MASK, Kind
from planguard.plan.code import WORDS

if TYPE_CHECKING:
    from planguard.plan.plan import Plan


def has_kind(plan: Plan, kind: Kind) -> bool:
    """Tell whether an instruction of this kind occurs in a plan."""
    return any(kind in (op & KIND_MASK for op in set(p.code[::WORDS])) for p in plan.code.programs)


def kinds_in(plan: Plan) -> set[int]:
    """Return the kinds of the instructions of a plan, members of batches included."""
    words = (set(program.code[::WORDS]) for program in plan.code.programs)
    return {op & KIND_MASK for found in words for op in found}
