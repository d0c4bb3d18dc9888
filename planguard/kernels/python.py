"""The kernels in Python: the reference that the native ones are tested against.

Same functions, same positional arguments, same attributes of what they return as
``planguard._native``; equal values, array by array. Used where no extension was built, or with
``PLANGUARD_KERNELS=python``.
"""

from __future__ import annotations

from planguard.kernels.twin_columns import Blockers, Columns, Lanes, RunState
from planguard.kernels.twin_dump import dump_columns
from planguard.kernels.twin_expand import expand
from planguard.kernels.twin_lower import lower
from planguard.kernels.twin_meetings import MeetingEnds, MeetingSearch
from planguard.kernels.twin_pickle import refused_opcode
from planguard.kernels.twin_run import blockers, run
from planguard.kernels.twin_weak import OpenRounds, WeakOrders, open_rounds, weak_orders

__all__ = [
    "Blockers",
    "Columns",
    "Lanes",
    "MeetingEnds",
    "MeetingSearch",
    "OpenRounds",
    "RunState",
    "WeakOrders",
    "blockers",
    "dump_columns",
    "expand",
    "lower",
    "open_rounds",
    "refused_opcode",
    "run",
    "weak_orders",
]
