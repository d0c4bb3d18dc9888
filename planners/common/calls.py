"""Calls of a rank as data: the rows of its program, and the tool that they are of."""

from __future__ import annotations

from importlib import metadata
from typing import Any

Row = dict[str, Any]
"""An action, its fields in the order in which a plan file has them."""


def producer(tool: str, package: str = "torch") -> str | tuple[str, str]:
    """Return a tool and the version of its package, where that is installed."""
    try:
        return tool, metadata.version(package)
    except metadata.PackageNotFoundError:
        return tool
