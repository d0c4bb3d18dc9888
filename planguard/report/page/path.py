"""The critical path of a run on the page: its pieces as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.report.page.columns import ABSENT
from planguard.simulate.entries import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.report.page.columns import Columns
    from planguard.simulate.critical import Piece


def write_path(path: Sequence[Piece], tick: float, columns: Columns, prefix: str) -> int:
    """Add the columns of a path under a prefix and return the number of its pieces.

    ``kind`` is that of a span, or one more where nothing ran; times are in ticks of the timeline.
    """
    starts = [round(one.start / tick) for one in path]
    ends = [round(one.end / tick) for one in path]
    gaps = [now - before for before, now in zip([0, *starts], starts, strict=False)]
    columns.put(f"{prefix}critical.gap", gaps)
    columns.put(f"{prefix}critical.dur", [b - a for a, b in zip(starts, ends, strict=True)])
    columns.put(f"{prefix}critical.rank", [one.rank for one in path])
    columns.put(f"{prefix}critical.action", [one.span.action for one in path])
    members = [ABSENT if one.span.member is None else one.span.member for one in path]
    columns.put(f"{prefix}critical.member", members)
    kinds = [KINDS.index(one.kind) if one.kind in KINDS else len(KINDS) for one in path]
    columns.put(f"{prefix}critical.kind", kinds, "u8")
    return len(path)
