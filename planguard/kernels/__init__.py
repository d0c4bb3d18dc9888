"""The kernels: expand, lower, run, blockers. Native where it was built, else the Python twin.

This is the only importer of ``planguard._native``. Both implementations return objects with the
same attributes (buffers that ``numpy.asarray`` accepts), and the same tests run over both.

The Python kernels never do long work unnoticed: unless they were asked for, it is said once on
stderr when they have taken more than a second.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from types import FunctionType, SimpleNamespace
from typing import Any

IMPLEMENTATION: str
"""``native`` or ``python``."""
_REASON = ""
NOTICED = 1.0
"""Seconds that the Python kernels may take without a word."""
_ASKED = "PLANGUARD_KERNELS"
_taken = 0.0
_has_told = False


def _load() -> Any:
    global IMPLEMENTATION, _REASON  # noqa: PLW0603  chosen once, at import
    if os.environ.get(_ASKED) == "python":
        _REASON = f"{_ASKED}=python"
    else:
        try:
            from planguard import _native
        except ImportError as error:
            _REASON = str(error)
        else:
            IMPLEMENTATION = "native"
            return _native
    from planguard.kernels import python

    IMPLEMENTATION = "python"
    return _timed(python)


def _timed(module: Any) -> Any:
    """Return the kernels of a module, which add up the seconds that they take."""
    names = {name: getattr(module, name) for name in module.__all__}
    return SimpleNamespace(
        **{n: _counting(f) if isinstance(f, FunctionType) else f for n, f in names.items()}
    )


def _counting(function: Any) -> Any:
    @functools.wraps(function)
    def counted(*args: Any, **options: Any) -> Any:
        begun = time.perf_counter()
        try:
            return function(*args, **options)
        finally:
            taken(time.perf_counter() - begun)

    return counted


def taken(seconds: float) -> None:
    """Add seconds of work; say once on stderr that Python does it, when they are many.

    Nothing is said where the native kernels work, or where the others were asked for.

    Args:
        seconds: Of this process, or of workers that it waited for.
    """
    global _taken, _has_told  # noqa: PLW0603 - a process says it once
    _taken += seconds
    if _has_told or _taken <= NOTICED or IMPLEMENTATION != "python" or os.environ.get(_ASKED):
        return
    _has_told = True
    sys.stderr.write(
        "note: this takes long because the kernels in Python do it, not the native ones\n"
        f"      ({_REASON})\nhelp: {_remedy()}\n"
    )


def _remedy() -> str:
    """Return what to do for the native kernels."""
    from planguard.sources import beside, package_folder

    if beside("native") is None:
        return "install a C++17 compiler, then planguard again; planguard doctor says more"
    return (
        f"{package_folder()} is a source folder and hides an installed planguard:\n"
        "      run in another folder, or install it with pip install -e ."
    )


_kernels = _load()


def describe() -> dict[str, str]:
    """Say which kernels are in use, and why not the native ones."""
    return {"implementation": IMPLEMENTATION, "reason": _REASON}


def use(name: str) -> Any:
    """Return the kernels called ``native`` or ``python``, whatever is the default.

    Raises:
        ImportError: If the native kernels were not built.
    """
    if name == "python":
        from planguard.kernels import python

        return python
    from planguard import _native

    return _native


def current() -> Any:
    """Return the kernels in use."""
    return _kernels
