"""The fx adapter, found the way every adapter is found: the core imports no planner by name."""

from __future__ import annotations

import sys
from typing import Any

from planguard import registry


def fx_planner() -> Any:
    """Return the package behind the adapter ``fx``: its data classes, reader and writer.

    Raises:
        UsageError: If the adapter is not installed.
    """
    adapter = registry.find("fx")
    return sys.modules[type(adapter).__module__.rpartition(".")[0]]
