"""Lines for a terminal: text with roles, wrapped to a width, painted or plain.

Layout knows roles, never colors: painted and plain output differ in escape sequences only.
"""

from __future__ import annotations

import os
import textwrap
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO

Span = tuple[str, str]
"""Role and text."""
Line = tuple[Span, ...]

SGR = {
    "error": "1;31",
    "warning": "1;33",
    "note": "1;36",
    "ok": "1;32",
    "unknown": "1;35",
    "strong": "1",
    "gutter": "34",
    "cause": "31",
    "dim": "2",
    "help": "36",
    "add": "32",
    "remove": "31",
}
"""Select-graphic-rendition codes of roles; a role without one is plain."""

DEFAULT_WIDTH = 80
NARROWEST, WIDEST = 40, 120


def is_terminal(out: IO[str] | None) -> bool:
    """Tell whether a stream is a terminal; none, and a closed one, are not."""
    try:
        return out is not None and out.isatty()
    except (AttributeError, ValueError):
        return False


def columns_of(out: IO[str] | None) -> int:
    """Return the columns of a stream: as ``COLUMNS`` says, as the terminal has, or the default."""
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named):
        return int(named)
    if out is None or not is_terminal(out):
        return DEFAULT_WIDTH
    try:
        return os.get_terminal_size(out.fileno()).columns or DEFAULT_WIDTH
    except OSError:
        return DEFAULT_WIDTH


@dataclass(frozen=True)
class Style:
    """How lines are written.

    Attributes:
        width: Columns; lines are wrapped there, except inside a word.
        color: Write escape sequences.
        ascii_only: Escape what is not ASCII, for terminals that cannot show it.
    """

    width: int = DEFAULT_WIDTH
    color: bool = False
    ascii_only: bool = False


def line(*parts: str | Span) -> Line:
    """Make a line of plain texts and ``(role, text)`` spans."""
    return tuple(("", part) if isinstance(part, str) else part for part in parts)


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(bool(unicodedata.combining(c)) for c in text)


def flow(
    head: Line, text: str, role: str = "", *, width: int, hang: int | None = None
) -> list[Line]:
    """Wrap a text behind a head; further lines are indented to where it began.

    Words are never cut: a path, a rank or a number stays in one piece, even beyond the width.

    Args:
        head: What stands in front of the text.
        text: One paragraph.
        role: Role of the text.
        width: Columns of the whole line.
        hang: Indentation of further lines; the width of the head if None.
    """
    used = sum(columns(part) for _, part in head)
    indent = used if hang is None else hang
    pieces = textwrap.wrap(
        " " * used + text,
        width=max(width, indent + 20),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [" " * used]
    first = pieces[0][used:]
    return [(*head, (role, first)), *(line((role, piece)) for piece in pieces[1:])]


def render(lines: Iterable[Line], style: Style) -> str:
    """Return the text of some lines, each with its newline."""
    return "".join(_one(spans, style) + "\n" for spans in lines)


def _one(spans: Line, style: Style) -> str:
    written = [(role, clean(text, ascii_only=style.ascii_only)) for role, text in spans]
    while written and not written[-1][1].strip():
        written.pop()
    if written:
        role, text = written[-1]
        written[-1] = role, text.rstrip()
    if not style.color:
        return "".join(text for _, text in written)
    return "".join(
        f"\x1b[{SGR[role]}m{text}\x1b[0m" if role in SGR and text.strip() else text
        for role, text in written
    )
