"""Read the algorithms of MSCCL (XML) as plans, whose ranks are the thread blocks.

``docs/planners/msccl.md`` says what every step becomes, and why a connection with slots is
expressed exactly.
"""

from .adapter import MscclAdapter, adapter
from .model import Algorithm, Block, Step
from .options import MscclOptions
from .reading import read_algorithm

__all__ = [
    "Algorithm",
    "Block",
    "MscclAdapter",
    "MscclOptions",
    "Step",
    "adapter",
    "read_algorithm",
]
