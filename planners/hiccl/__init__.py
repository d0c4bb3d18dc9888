"""Make plans of hierarchical collectives from a description in the style of HiCCL.

``docs/planners/hiccl.md`` describes the JSON and what it is factored into.
"""

from .adapter import HicclAdapter, adapter
from .model import Composition, Primitive
from .options import HicclOptions
from .reading import read_composition

__all__ = [
    "Composition", "HicclAdapter", "HicclOptions", "Primitive", "adapter", "read_composition",
]  # fmt: skip
