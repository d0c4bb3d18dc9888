"""Read Chakra execution traces, the input of simulators, as plans; one file per rank.

``docs/planners/chakra.md`` says how dependencies and queues are expressed.
"""

from .adapter import ChakraAdapter, adapter
from .model import Node, Workload
from .options import ChakraOptions
from .reading import read_workload

__all__ = ["ChakraAdapter", "ChakraOptions", "Node", "Workload", "adapter", "read_workload"]
