"""Communication operations of your own: describe one as data, register it, use it in plans.

docs/how-to/add-an-operation.md shows it in one page.
"""

from __future__ import annotations

from planguard.plan.compiling.operations import (
    FIELDS,
    FORMULAS,
    OperationProblem,
    OperationSpec,
    entry_points,
    problems,
    register,
    registered,
    unregister,
)

__all__ = [
    "FIELDS",
    "FORMULAS",
    "OperationProblem",
    "OperationSpec",
    "entry_points",
    "problems",
    "register",
    "registered",
    "unregister",
]
