"""Mesh templates decided without expansion, and for every size of their replicated dimensions."""

from __future__ import annotations

from planguard.parametric.check import check_for_all, check_symbolic, decide_for_all
from planguard.parametric.dimensions import Replication, replications
from planguard.parametric.instance import instance
from planguard.parametric.lazy import LazyVerdict

__all__ = [
    "LazyVerdict",
    "Replication",
    "check_for_all",
    "check_symbolic",
    "decide_for_all",
    "instance",
    "replications",
]
