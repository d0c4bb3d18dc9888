"""Read recordings of Megatron-core's pipeline schedules as plans.

Inputs are files ``planguard.megatron/1``. ``recorder.py`` is a file of its own that users run with
their Megatron-core on a CPU to write them. See docs/planners/megatron.md.
"""

from __future__ import annotations

from .options import MegatronOptions
from .plugin import MegatronAdapter, adapter

__all__ = ["MegatronAdapter", "MegatronOptions", "adapter"]
