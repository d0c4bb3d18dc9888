"""Communication operations of your own: describe one as data, register it, use it in plans.

docs/how-to/add-an-operation.md shows it in one page.
"""

from __future__ import annotations

from planguard.plan.compiling.operations import (
    FORMULAS,
    OperationProblem,
    OperationSpec,
    entry_points,
    problems,
    register,
    registered,
    unregister,
)
from planguard.plan.vocabulary import FIELDS

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
