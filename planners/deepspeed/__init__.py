"""Read DeepSpeed's pipeline schedules and ZeRO buckets as plans.

Inputs are JSON dumps ``planguard.deepspeed/1`` and schedules in memory. ``hook.py`` is a file of
its own that users run next to DeepSpeed to write a dump. See docs/planners/deepspeed.md.
"""

from __future__ import annotations

from .model import Job
from .options import DeepSpeedOptions
from .plugin import DeepSpeedAdapter, adapter

__all__ = ["DeepSpeedAdapter", "DeepSpeedOptions", "Job", "adapter"]
