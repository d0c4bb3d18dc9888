"""Read torch.fx graphs with functional collectives as plans, from memory or from a JSON dump.

A graph says what one rank does: a ``_c10d_functional`` node issues a collective, ``wait_tensor``
waits for it, and everything between is the overlap window. One graph names its process groups by
strings of a counter of its own process, so a graph needs its group table to mean anything::

    from planguard.planners.fx import FxProgram

    planguard.check({0: FxProgram(graph0, groups={"0": [0, 1]}),
                     1: FxProgram(graph1, groups={"0": [0, 1]})}, planner="fx")

``docs/planners/fx.md`` describes the input forms, the JSON dump ``planguard.fx/1`` and what each
operator becomes.
"""

from .adapter import FxAdapter, adapter
from .dump import read_bundle, write_bundle
from .hazards import flow
from .model import FxBundle, FxGraph, FxGroup, FxNode, FxProgram

__all__ = [
    "FxAdapter",
    "FxBundle",
    "FxGraph",
    "FxGroup",
    "FxNode",
    "FxProgram",
    "adapter",
    "flow",
    "read_bundle",
    "write_bundle",
]
