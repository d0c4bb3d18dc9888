"""What a rank issues: everything in front of its `exit`.

`exit` ends the rank (PLAN_FORMAT, Actions), so what stands behind it belongs to no match, makes no
group and is no call that somebody waits for. The kernels stop there; whoever reads columns asks
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.plan.actions import KIND_MASK, MEMBER, Kind, is_collective, is_point_to_point

if TYPE_CHECKING:
    from collections.abc import Sequence

_BEGINS = frozenset({Kind.UNORDERED_BEGIN, Kind.THREADS_BEGIN, Kind.CHOICE_BEGIN})
_ENDS = frozenset({Kind.UNORDERED_END, Kind.THREADS_END, Kind.CHOICE_END})


def issued(columns: Any, rank: int) -> range:
    """Return the column positions of what a rank issues, its `exit` excluded.

    An `exit` inside of a block of open order, threads or branches ends nothing for certain here:
    what is left of the rank is known once the block is settled.
    """
    start, end = int(columns.rank_off[rank]), int(columns.rank_off[rank + 1])
    ops = bytes(columns.op[start:end])
    at = ops.find(Kind.EXIT)
    if at < 0:
        return range(start, end)
    if not columns.has_markers:
        return range(start, start + at)
    depth = 0
    for place, op in enumerate(ops):
        kind = op & KIND_MASK
        if op & MEMBER:
            continue
        depth += (kind in _BEGINS) - (kind in _ENDS)
        if kind == Kind.EXIT and not depth:
            return range(start, start + place)
    return range(start, end)


def counts(columns: Any) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Count the sends and receives of every channel, and the calls of every slot."""
    # As bytes: a view of the kernels makes a number of each entry that it is asked for.
    if bytes(columns.op).find(Kind.EXIT) < 0:
        return columns.send_count, columns.recv_count, columns.slot_count
    sends, receives = [0] * len(columns.chan_src), [0] * len(columns.chan_src)
    calls = [0] * len(columns.slot_count)
    for rank in range(columns.world_size):
        for at in issued(columns, rank):
            kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
            if is_point_to_point(kind):
                (receives if kind in {Kind.RECV, Kind.PROBE} else sends)[arg] += 1
            elif is_collective(kind):
                calls[arg] += 1
    return sends, receives, calls
