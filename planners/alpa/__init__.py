"""Read the pipeline instructions of Alpa as plans, from a JSON dump.

``hook.py`` is a file of its own that users run inside Alpa to write the dump ``planguard.alpa/1``.
``docs/planners/alpa.md`` describes the dump and what every instruction becomes.
"""

from .adapter import AlpaAdapter, adapter
from .dump import read_dump
from .model import Dump
from .options import AlpaOptions

__all__ = ["AlpaAdapter", "AlpaOptions", "Dump", "adapter", "read_dump"]
