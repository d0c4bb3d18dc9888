"""How a verdict is written, told and drawn.

A verdict is data and imports nothing that reads it. What its methods call is found here, under a
name; the package itself, which is above all its parts, fills it in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

VIEWS: dict[str, Callable[..., Any]] = {}
"""``json``, ``page``, ``matrix``, ``text``, ``html`` of a verdict, ``picture`` of a matrix, and
``repaired``: what a repair makes of a plan."""
