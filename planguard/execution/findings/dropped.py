"""What a receive whose handle dies takes along: calls that were issued before it.

Measured on gloo (torch 2.13): a dropped ``irecv`` swallows its message, and from there on its
process hears nothing from that peer in that group, also not that the peer is ready for what was
sent to it before. So an ``isend``, a receive or a collective of the same pair that is under way at
that time may never end. The kernels' strict end stalls only what is issued later; where something
earlier is still under way, SAFE is left open (``with_drops``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.execution.findings.cause import left_open, open_finding
from planguard.execution.findings.reason import construct
from planguard.execution.issued import issued
from planguard.plan.actions import (
    ASYNC,
    KIND_MASK,
    MEMBER,
    NONE,
    SEND_KINDS,
    Kind,
    is_collective,
    is_point_to_point,
)
from planguard.semantics.model import find_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.verdict import Verdict


def with_drops(verdict: Verdict, columns: Any) -> Verdict:
    """Leave a plan undecided in which a dropped receive may stall what was issued before it.

    Args:
        verdict: The verdict on the plan.
        columns: Its columns.
    """
    if not (verdict.safe and columns.has_drop and find_model(verdict.model).drops_kill):
        return verdict
    for rank in range(columns.world_size):
        if _is_stalled(columns, rank):
            why = (
                f"rank {rank} drops the handle of an irecv while an earlier call of the same pair "
                "is under way: if it dies before its message comes, that call may never end"
            )
            return left_open(verdict, open_finding(construct(why)))
    return verdict


def _is_stalled(columns: Any, rank: int) -> bool:
    calls = list(_calls(columns, rank))
    begin = columns.rank_off[rank]
    drops = {
        columns.arg[at]: at - begin
        for at in issued(columns, rank)
        if columns.op[at] & KIND_MASK == Kind.DROP
    }
    # In a block of open order nothing is for certain before or behind anything.
    waited = {} if columns.has_markers else _waits(columns, rank)
    for dead, at, ginst, peer in calls:
        kind = columns.op[at] & KIND_MASK
        if dead not in drops or not is_point_to_point(kind) or kind in SEND_KINDS:
            continue
        for handle, other, home, other_peer in calls:
            if handle == dead or home != ginst or other_peer not in (None, peer):
                continue
            if columns.has_markers or (other < at and waited.get(handle, NONE) > drops[dead]):
                return True
    return False


def _calls(columns: Any, rank: int) -> Iterator[tuple[int, int, int, int | None]]:
    """Yield the asynchronous calls of a rank: entry of the handle, place, group and peer."""
    begin, handle = columns.rank_off[rank], 0
    for at in issued(columns, rank):
        op, arg = columns.op[at], columns.arg[at]
        kind = op & KIND_MASK
        if not op & MEMBER:
            handle = at - begin
        if not (op & ASYNC or op & MEMBER or columns.op[begin + handle] & ASYNC):
            continue
        if is_point_to_point(kind) and kind != Kind.PROBE:
            ends = columns.chan_src[arg], columns.chan_dst[arg]
            peer = ends[1] if ends[0] == rank else ends[0]
            yield handle, at, columns.chan_ginst[arg], peer
        elif is_collective(kind):
            yield handle, at, columns.slot_ginst[arg], None


def _waits(columns: Any, rank: int) -> dict[int, int]:
    """Return where a rank first waits for a handle, by the entry of the handle."""
    found: dict[int, int] = {}
    begin = columns.rank_off[rank]
    for at in issued(columns, rank):
        kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
        if kind == Kind.WAIT:
            found.setdefault(arg, at - begin)
        elif kind == Kind.WAIT_MANY and arg != NONE:
            for handle in columns.aux[arg + 1 : arg + 1 + columns.aux[arg]]:
                found.setdefault(handle, at - begin)
    return found
