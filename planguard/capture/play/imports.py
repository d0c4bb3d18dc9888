"""Modules that take seconds to import: imported in this process once a play was seen to need them.

A fork that imports a module keeps it to itself. So the first play of a job that wraps a model in
DDP imports torch's compiler in every rank, side by side; this process then knows, and does it
before the next play.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings

from planguard.sources import file_of, is_program

BASE = ("torch.distributed.distributed_c10d", "torch.distributed.device_mesh")
_SLOW = (
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel",
    "torch.distributed.checkpoint",
    "torch.distributed.algorithms.join",
    "torch.distributed.optim",
    "torch.fx.experimental.symbolic_shapes",
    "accelerate",
    "lightning",
    "transformers.trainer",
)
_LEARNT: list[str] = []


def warm(*modules: str) -> None:
    """Import modules that every rank needs, so that forked processes find them imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing torch's parts warns about other parts
        for module in modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)


def warm_learnt() -> None:
    """Import what every play needs, and what ranks were seen to import."""
    warm(*BASE, *_LEARNT)
    for module in list(sys.modules.values()):
        is_program(file_of(module))  # every rank asks that of every module; forks keep the answers


def learn(modules: list[str]) -> None:
    """Remember what ranks imported."""
    _LEARNT.extend(module for module in modules if module in _SLOW and module not in _LEARNT)


def begun() -> set[str]:
    """Return which of the modules that take long are there already."""
    return {module for module in _SLOW if module in sys.modules}


def slow_imports(before: set[str]) -> list[str]:
    """Return which of them were imported since."""
    return sorted(begun() - before)
