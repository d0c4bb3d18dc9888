"""Horovod: negotiated fusion from a module and its options, or from a timeline.

``adapter`` reads an ``nn.Module`` (it is never called), a file that ``dump`` wrote, or the JSON of
``HOROVOD_TIMELINE``. Horovod need not be installed. See docs/planners/horovod.md.
"""

from __future__ import annotations

from .options import HorovodOptions
from .plugin import HorovodAdapter, dump

adapter = HorovodAdapter()

__all__ = ["HorovodAdapter", "HorovodOptions", "adapter", "dump"]
