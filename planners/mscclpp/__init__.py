"""Read the execution plans of MSCCL++ (JSON) as plans, whose ranks are the thread blocks.

``docs/planners/mscclpp.md`` says how signals, semaphores and packets are counted.
"""

from .adapter import MscclppAdapter, adapter
from .model import Event, Program
from .options import MscclppOptions
from .reading import read_program

__all__ = ["Event", "MscclppAdapter", "MscclppOptions", "Program", "adapter", "read_program"]
