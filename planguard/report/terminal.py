"""What a stream can show: its width, colors, and whether it takes more than ASCII."""

from __future__ import annotations

import os
from typing import IO

from planguard.explain.lines import NARROWEST, WIDEST, Style, columns_of, is_terminal

COLORS = ("auto", "always", "never")


def style_for(out: IO[str], color: str = "auto") -> Style:
    """Return how to write to a stream.

    Args:
        out: The stream.
        color: ``auto`` is color on a terminal; ``NO_COLOR`` and ``FORCE_COLOR`` decide before
            that, in this order, as in Python itself.
    """
    encoding = (getattr(out, "encoding", None) or "utf-8").lower()
    return Style(
        width=_width(out),
        color=_has_color(out, color),
        ascii_only=not encoding.startswith("utf"),
    )


def _has_color(out: IO[str], color: str) -> bool:
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    return is_terminal(out) and os.environ.get("TERM") != "dumb"


def _width(out: IO[str]) -> int:
    return min(max(columns_of(out), NARROWEST), WIDEST)
