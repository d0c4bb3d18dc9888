"""Read the plans of nnScaler: generated code by its syntax tree, execution plans by their fields.

The output directory of ``nnscaler.parallelize`` has one Python file per rank. Nothing in it is
imported or executed, and nnScaler itself is not needed::

    import planguard

    planguard.check("out/_parallel_modules/.../GPT/_", planner="nnscaler")

``docs/planners/nnscaler.md`` describes the inputs, what becomes of each primitive, and the ledger.
"""

from .options import NnScalerOptions
from .plugin import NnScalerAdapter, adapter, from_directory

__all__ = ["NnScalerAdapter", "NnScalerOptions", "adapter", "from_directory"]
