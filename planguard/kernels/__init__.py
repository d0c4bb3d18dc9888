"""The kernels: expand, lower, run, blockers. Native where it was built, else the Python twin.

This is the only importer of ``planguard._native``. Both implementations return objects with the
same attributes (buffers that ``numpy.asarray`` accepts), and the same tests run over both.
"""

from __future__ import annotations

import os
from typing import Any

IMPLEMENTATION: str
"""``native`` or ``python``."""
_REASON = ""


def _load() -> Any:
    global IMPLEMENTATION, _REASON  # noqa: PLW0603  chosen once, at import
    if os.environ.get("PLANGUARD_KERNELS") == "python":
        _REASON = "PLANGUARD_KERNELS=python"
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
    return python


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
