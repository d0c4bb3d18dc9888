"""Memory snapshots in the terminal: the cause, the numbers of every device, who has the memory."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from planguard.recording.memory import use_of
from planguard.report.page.memory import told
from planguard.report.pictures.beside_text import WIDTH, table
from planguard.words import clean, plural, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.recording.memory import Device

ROWS = 10
"""Call sites of a device that are listed."""


def memory_text(found: Sequence[Device]) -> str:
    """Return snapshots as text: the cause first, then every device."""
    first = told(found)
    lines = [*textwrap.wrap(first.sentence, WIDTH)]
    for term, text in first.facts:
        lines += textwrap.wrap(
            f"{term}: {text}", WIDTH, initial_indent="  ", subsequent_indent="    "
        )
    lines += ["", *table([("", "most in use", "at the end", "reserved", "free", "largest"),
                          *map(_numbers, found)])]  # fmt: skip
    for one in found:
        lines += ["", *_device(one)]
    return "\n".join(lines) + "\n"


def _numbers(one: Device) -> tuple[str, ...]:
    use = use_of(one.segments)
    sizes = (max(one.used), one.used[-1], use.reserved, use.free, use.largest)
    return (clean(one.name), *map(size, sizes))


def _device(one: Device) -> Iterator[str]:
    moments = [(f"out of memory at entry {at + 1:,}", at) for at in one.ooms[:3]]
    when = f"peak after entry {one.peak + 1:,} of {len(one.entries):,}"
    moments.append((when if one.entries else "at the end", one.peak))
    for word, at in moments:
        rows = one.by_site(at)
        yield f"{clean(one.name)}, {word}: {size(one.used[at + 1])} in use"
        told_of = [(clean(site), size(used), f"{count:,}") for site, used, count in rows[:ROWS]]
        yield from table([("", "bytes", "blocks"), *told_of])
        if len(rows) > ROWS:
            yield f"  and {plural(len(rows) - ROWS, 'more call site')}"
    for note in one.notes:
        yield from textwrap.wrap(f"note: {note}", WIDTH)
