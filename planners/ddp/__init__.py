"""``DistributedDataParallel``: buckets, rebuild and broadcasts from a module and its options.

``adapter`` reads an ``nn.Module`` (it is never called), a wrapped module, or a file that ``dump``
wrote. See docs/planners/ddp.md.
"""

from __future__ import annotations

from .options import DdpOptions
from .plugin import DdpAdapter, dump

adapter = DdpAdapter()

__all__ = ["DdpAdapter", "DdpOptions", "adapter", "dump"]
