"""Read strategies of Hetu-Galvatron as plans.

Inputs are its ``galvatron_config_*.json``: a strategy per layer, found by its search engine. What
its runtime does with one is that of commit cea12ff (2.4.1). See docs/planners/galvatron.md.
"""

from __future__ import annotations

from .options import GalvatronOptions
from .plugin import GalvatronAdapter, adapter

__all__ = ["GalvatronAdapter", "GalvatronOptions", "adapter"]
