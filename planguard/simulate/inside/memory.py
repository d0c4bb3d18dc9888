"""Where allocations stand in a picture of memory over time: each at the lowest place that is free.

The addresses of a trace leave gaps of many sizes between them; a picture needs none. An allocation
takes the lowest room that fits while it lives, as torch's viewer of memory snapshots stacks blocks.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.simulate.inside.tracks import Allocation


def floors(allocations: Sequence[Allocation]) -> list[int]:
    """Return the first byte of each allocation in the picture; allocations are by start."""
    taken: list[tuple[int, int]] = []  # begin and end of rooms, by begin
    ends: list[tuple[float, int, int]] = []
    out = []
    for one in allocations:
        start = float("-inf") if one.start is None else one.start
        while ends and ends[0][0] <= start:
            _, low, high = heapq.heappop(ends)
            del taken[bisect_left(taken, (low, high))]
        floor = 0
        for low, high in taken:
            if low - floor >= one.size:
                break
            floor = max(floor, high)
        insort(taken, (floor, floor + one.size))
        heapq.heappush(
            ends, (float("inf") if one.end is None else one.end, floor, floor + one.size)
        )
        out.append(floor)
    return out
