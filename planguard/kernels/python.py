"""The kernels in Python: the reference that the native ones are tested against.

Same functions, same positional arguments, same attributes of what they return as
``planguard._native``; equal values, array by array. Used where no extension was built, or with
``PLANGUARD_KERNELS=python``.
"""

from __future__ import annotations

from planguard.kernels.twin_columns import Blockers, Columns, Lanes, RunState
from planguard.kernels.twin_expand import expand
from planguard.kernels.twin_lower import lower
from planguard.kernels.twin_run import blockers, run

__all__ = ["Blockers", "Columns", "Lanes", "RunState", "blockers", "expand", "lower", "run"]
