"""What a stream can show: its width, colors, and whether it takes more than ASCII."""

from __future__ import annotations

import os
from typing import IO

from planguard.explain.lines import DEFAULT_WIDTH, NARROWEST, WIDEST, Style

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


def _is_terminal(out: IO[str]) -> bool:
    try:
        return out.isatty()
    except (AttributeError, ValueError):  # not a file, or a closed one
        return False


def _has_color(out: IO[str], color: str) -> bool:
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    return _is_terminal(out) and os.environ.get("TERM") != "dumb"


def _width(out: IO[str]) -> int:
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named):
        found = int(named)
    elif _is_terminal(out):
        try:
            found = os.get_terminal_size(out.fileno()).columns or DEFAULT_WIDTH
        except OSError:
            found = DEFAULT_WIDTH
    else:
        found = DEFAULT_WIDTH
    return min(max(found, NARROWEST), WIDEST)
