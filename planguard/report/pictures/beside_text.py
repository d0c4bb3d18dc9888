"""Two plans beside each other in a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from planguard.words import clean, name_ranks, plural, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.report.page.beside import Beside
    from planguard.report.page.order import Change

WIDTH = 80
"""Columns of a terminal."""
SHOWN = 12
"""Most lines of one table or of the differences of one set of ranks."""


def beside_text(found: Beside) -> str:
    """Return the comparison as text: the sentence first, then numbers, bytes and order."""
    lines = [f"A: {clean(found.a.name)}", f"B: {clean(found.b.name)}"]
    lines += [*textwrap.wrap(found.sentence, WIDTH), ""]
    lines += [*table([("", "A", "B", "from A to B"), *(row[:4] for row in found.numbers)]), ""]
    differ = [row for row in found.bytes if row[4:6] != row[6:]]
    if differ:
        lines.append(f"bytes that differ ({found.a.moved.algorithm}, {found.a.moved.basis}):")
        rows = [(" ".join(filter(None, row[:4])), size(row[4]), size(row[6])) for row in differ]
        lines += [*table([("", "A", "B"), *rows[:SHOWN]]), *_more(len(rows)), ""]
    if found.order.note:
        lines.append(f"note: {found.order.note}")
    for one in found.order.differs[:SHOWN]:
        alike = "" if one.aligned else "; too long to be aligned"
        alike += f" (peers and groups of rank {one.ranks[0]})" if len(one.ranks) > 1 else ""
        lines.append(f"{name_ranks(one.ranks)}: {plural(one.count, 'difference')}{alike}")
        lines += [f"  {_line(change)}" for change in one.changes[:SHOWN]]
        lines += _more(one.count)
    if len(found.order.differs) > SHOWN:
        lines.append(f"... {len(found.order.differs) - SHOWN:,} more sets of ranks differ")
    for note in sorted({*found.a.moved.notes, *found.b.moved.notes}):
        lines.append(f"note: {note}")
    return "\n".join(lines).rstrip() + "\n"


def _more(count: int) -> list[str]:
    return [f"  ... {count - SHOWN:,} more"] if count > SHOWN else []


def _line(change: Change) -> str:
    places = {"A": change.a, "B": change.b}
    at = ", ".join(f"{name} #{place}" for name, place in places.items() if place is not None)
    return f"{change.kind:<8}{at}: {change.text}" + (f" -> {change.other}" if change.other else "")


def table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows under each other: the first column to the left, the others to the right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        first, *rest = (
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(("", first, *rest)).rstrip()
