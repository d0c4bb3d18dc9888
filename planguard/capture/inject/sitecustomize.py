# ruff: noqa: INP001 - Python imports it by this name, it is no module of the package
"""Starts the recorder in every rank of a job; ``planguard dryrun`` puts this folder on the path.

Python imports ``sitecustomize`` at its start. Importing torch here would slow every process down,
so the recorder starts when the program itself imports it. A ``sitecustomize`` that was there before
is run as well.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

_HERE = str(Path(__file__).resolve().parent)


class _AfterTorch:
    """Finds ``torch`` as always, and starts the recorder when it has been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the module's own spec with a loader that starts the recorder behind it."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            from planguard.capture.run_start import start_from_environment

            start_from_environment()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _chain() -> None:
    """Run the ``sitecustomize`` that this one hides."""
    others = [place for place in sys.path if str(Path(place or ".").resolve()) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


if os.environ.get("PLANGUARD_RECORD") and "RANK" in os.environ:
    sys.meta_path.insert(0, _AfterTorch())
_chain()
