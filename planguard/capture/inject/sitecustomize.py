# ruff: noqa: INP001 - Python imports it by this name, it is no module of the package
"""Starts the recorder or the guard in every rank of a job.

``planguard dryrun`` and ``planguard guard`` put this folder on the path, and Python imports
``sitecustomize`` at its start. Importing torch here would slow every process down, so both start
when the program itself has imported it. Which process is a rank is not known before
``init_process_group``: launchers set ``RANK`` when they like, or never. A ``sitecustomize`` that
was there before is run as well.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any


def _start() -> None:
    if os.environ.get("PLANGUARD_RECORD"):
        from planguard.capture.run.start import start_from_environment

        start_from_environment()
    if os.environ.get("PLANGUARD_GUARD"):
        from planguard.live import environment

        environment.start_from_environment()


class _AfterTorch:
    """Finds ``torch`` as all the others do, and starts ours when it has been imported.

    It stays until then: programs that only ask whether there is a torch come first.
    """

    is_asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the module's own spec with a loader that starts ours behind it."""
        if name != "torch" or self.is_asking:
            return None
        self.is_asking = True
        try:
            spec = find_spec(name)
        finally:
            self.is_asking = False
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _start()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _chain(inject: str) -> None:
    """Run the ``sitecustomize`` that this one hides."""
    others = [place for place in sys.path if str(Path(place or ".").resolve()) != inject]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


def _begin() -> None:
    inject, package = (os.environ.get(f"PLANGUARD_RECORD_{name}") for name in ("INJECT", "HOME"))
    is_wanted = os.environ.get("PLANGUARD_RECORD") or os.environ.get("PLANGUARD_GUARD")
    if is_wanted and package:
        # Last of all: the job's own packages come first, and only what it lacks is found here.
        if package not in sys.path:
            sys.path.append(package)
        if "torch" in sys.modules:
            _start()
        else:
            sys.meta_path.insert(0, _AfterTorch())
    _chain(inject or "")


_begin()
