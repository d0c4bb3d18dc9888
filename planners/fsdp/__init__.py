"""FSDP2 (``fully_shard``): gathers, prefetches and reductions from a module and its options.

``adapter`` reads an ``nn.Module`` (it is never called), a module that ``fully_shard`` was applied
to, or a file that ``dump`` wrote. See docs/planners/fsdp.md.
"""

from __future__ import annotations

from .options import FsdpOptions
from .plugin import FsdpAdapter, dump

adapter = FsdpAdapter()

__all__ = ["FsdpAdapter", "FsdpOptions", "adapter", "dump"]
