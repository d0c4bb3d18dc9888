"""How numbers and names are written for people: rank sets, sizes, counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAMED = 6
NAME_LIMIT = 40
"""Longest name of a group, tensor or handle that is written in full."""


def clean(text: str, *, ascii_only: bool = False) -> str:
    r"""Escape what a terminal would obey instead of show.

    Names come from plans, and plans are not trusted: control characters (ANSI escapes among them),
    bidirectional marks and other unprintable characters become ``\x..``.

    Args:
        text: Any text of one line.
        ascii_only: Escape everything that is not ASCII as well.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c if c.isprintable() and not (ascii_only and ord(c) > 126) else f"\\x{ord(c):02x}"
        for c in text
    )


def encodable(text: str) -> str:
    r"""Return text that UTF-8 can hold: bytes of a file's name that are none become ``\xdc..``."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return clean(text)
    return text


def cut(text: str, limit: int = NAME_LIMIT) -> str:
    """Cut a long text in its middle, so that what tells two names apart stays at both ends."""
    if len(text) <= limit:
        return text
    tail = (limit - 3) // 2
    return f"{text[: limit - 3 - tail]}...{text[len(text) - tail :]}"


def shown(name: str) -> str:
    """Write a name from a plan: cleaned, and cut in the middle when it is long."""
    return cut(clean(name))


def rank_set(ranks: Iterable[int]) -> str:
    """Write ranks in rank-set notation: ``[0-3,8-11]``, or ``[5]`` for one."""
    ordered = sorted(set(ranks))
    runs: list[tuple[int, int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    shown = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    if len(shown) > 2 * MAX_NAMED:
        shown = [*shown[: 2 * MAX_NAMED - 1], "...", shown[-1]]
    return "[" + ",".join(shown) + "]"


def name_ranks(ranks: Iterable[int]) -> str:
    """Write ranks for a sentence: ``rank 3``, ``ranks 5 and 6``, ``ranks [0-3]``."""
    ordered = sorted(set(ranks))
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    if len(ordered) == 2:
        return f"ranks {ordered[0]} and {ordered[1]}"
    return f"ranks {rank_set(ordered)}"


def listed(items: Iterable[str]) -> str:
    """Write a list for a sentence: ``a``, ``a and b``, ``a, b and c``."""
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def size(count: int) -> str:
    """Write a number of bytes in IEC units with two decimals: ``4.00 MiB``, ``512 B``."""
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if round(value, 2) < 1024:
            return f"{value:.2f} {unit}"
    return f"{value / 1024:.2f} PiB"


def plural(count: int, noun: str) -> str:
    """Write a count with its noun: ``1 rank``, ``80,000 actions``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
