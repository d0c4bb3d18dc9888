"""What takes a rank long is done in this process once a play was seen to need it.

A fork that imports a module, or parses a file, keeps it to itself. So the first play of a job that
wraps a model in DDP imports torch's compiler in every rank, side by side; this process then knows,
and does it before the next play. Of a step under a trainer or a test runner, the files on its stack
are parsed in the same way.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings

from planguard.capture.names.source import parse, parsed_files
from planguard.sources import program_modules

BASE = ("torch.distributed.distributed_c10d", "torch.distributed.device_mesh")
_SLOW = (
    "torch._dynamo",
    "torch._functorch.aot_autograd",
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
_PARSED: dict[str, None] = {}


def warm(*modules: str) -> None:
    """Import modules that every rank needs, so that forked processes find them imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing torch's parts warns about other parts
        for module in modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)


def warm_learnt() -> None:
    """Import and parse what every play needs, and what ranks were seen to import and to parse."""
    warm(*BASE, *_LEARNT)
    if "numpy" in sys.modules:
        # NumPy imports it when it is first asked for, and it then seeds itself: otherwise in each
        # rank, so that the answer on a program that throws dice would be another one every time.
        warm("numpy.random")
    parse(_PARSED)
    program_modules()  # every rank asks which modules are the user's; forks keep the answer


def learn(imported: list[str], parsed: list[str]) -> None:
    """Remember what ranks imported and parsed."""
    _LEARNT.extend(module for module in imported if module in _SLOW and module not in _LEARNT)
    _PARSED.update(dict.fromkeys(parsed))


class Begun:
    """What was imported and parsed when a rank began."""

    def __init__(self) -> None:
        self._modules = _slow()
        self._files = set(parsed_files())

    def imported(self) -> list[str]:
        """Return which of the modules that take long were imported since."""
        return sorted(_slow() - self._modules)

    def parsed(self) -> list[str]:
        """Return which files were parsed since, in order."""
        return [file for file in parsed_files() if file not in self._files]


def _slow() -> set[str]:
    return {module for module in _SLOW if module in sys.modules}
