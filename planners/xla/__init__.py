"""Read XLA programs as plans: HLO text, StableHLO and Shardy text, several programs side by side.

``compiled.as_text()`` of jax is the exact schedule of every device::

    planguard.check("train_step.hlo")
    planguard.check({"0-3": "host0.hlo", "4-7": "host1.hlo"}, planner="xla")

``docs/planners/xla.md`` describes what is read and what each instruction becomes.
"""

from .adapter import XlaAdapter, adapter, trace_programs
from .hlo import read_hlo
from .mlir import read_mlir
from .options import XlaOptions
from .overlap import Overlap, find_overlap
from .programs import Program, read_programs

__all__ = [
    "Overlap",
    "Program",
    "XlaAdapter",
    "XlaOptions",
    "adapter",
    "find_overlap",
    "read_hlo",
    "read_mlir",
    "read_programs",
    "trace_programs",
]
