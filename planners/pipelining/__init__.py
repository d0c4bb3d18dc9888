"""Schedules of ``torch.distributed.pipelining``: CSV files, schedule objects and recorded runs.

``adapter`` reads both CSV forms (``compute_only`` and ``compute_comms``), objects built on
``_PipelineScheduleRuntime``, schedules whose run loop has no order (GPipe, 1F1B: the loop itself is
recorded by ``record_run``), and dicts from rank to actions. See docs/planners/pipelining.md.
"""

from __future__ import annotations

from .options import PipeliningOptions
from .plugin import PipeliningAdapter, from_run_log
from .recorder import RunLog, record_run

adapter = PipeliningAdapter()

__all__ = [
    "PipeliningAdapter",
    "PipeliningOptions",
    "RunLog",
    "adapter",
    "from_run_log",
    "record_run",
]
