"""StableHLO text."""

from __future__ import annotations

from .model import Module


def read_mlir(text: str, file: str) -> Module:
    """Read."""
    raise NotImplementedError
