"""A guard beside a running job: says which ranks can never move again, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planguard.live.report import LiveReport
    from planguard.live.watch import LiveGuard, guard

__all__ = ["LiveGuard", "LiveReport", "guard"]


def __getattr__(name: str) -> Any:
    """Import on first use: the guard runs inside jobs and must cost nothing before it is asked."""
    from importlib import import_module

    homes = {"LiveGuard": "watch", "guard": "watch", "LiveReport": "report"}
    if name not in homes:
        raise AttributeError(f"module 'planguard.live' has no attribute {name!r}")
    return getattr(import_module(f"planguard.live.{homes[name]}"), name)
