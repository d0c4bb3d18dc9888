"""One deterministic execution of lanes, and who blocks whom at its end (``run.cpp``)."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from planguard.kernels.twin_columns import Blockers, RunState
from planguard.kernels.twin_rules import ARRIVE, AWAIT

if TYPE_CHECKING:
    from planguard.kernels.twin_columns import Lanes


def run(lanes: Lanes) -> RunState:
    """Run every lane until it waits, and go on with it when its match completes."""
    code, offsets = lanes.code, lanes.lane_off
    need = list(lanes.need)
    n_lanes = len(lanes.lane_rank)
    pc = list(offsets[:n_lanes])
    waiting: dict[int, list[int]] = {}
    ready = list(range(n_lanes - 1, -1, -1))
    while ready:
        lane = ready.pop()
        at, end = pc[lane], offsets[lane + 1]
        while at < end:
            word = code[at]
            match = word >> 2
            if word & ARRIVE:
                need[match] -= 1
                if not need[match]:
                    for waiter in waiting.pop(match, ()):
                        # It has arrived already at the instruction it stands at.
                        pc[waiter] += 1
                        ready.append(waiter)
            if word & AWAIT and need[match]:
                waiting.setdefault(match, []).append(lane)
                break
            at += 1
        pc[lane] = at
    executed = sum(pc) - sum(offsets[:n_lanes])
    ends = lanes.lane_soft if len(lanes.lane_soft) else offsets[1 : n_lanes + 1]
    stuck = sum(at < end for at, end in zip(pc, ends, strict=True))
    return RunState(array("Q", pc), array("I", need), executed, stuck)


def blockers(lanes: Lanes, state: RunState) -> Blockers:
    """Return the stuck lanes, and every arrival that one of them owes to a match waited at."""
    out = Blockers()
    offsets, code = lanes.lane_off, lanes.code
    for lane, at in enumerate(state.pc):
        if at < offsets[lane + 1]:
            out.lane.append(lane)
            out.match.append(code[at] >> 2)
    waited = set(out.match)
    for lane in out.lane:
        # The instruction a lane stands at has arrived already.
        for at in range(state.pc[lane] + 1, offsets[lane + 1]):
            if code[at] & ARRIVE and code[at] >> 2 in waited:
                out.owed_match.append(code[at] >> 2)
                out.owed_lane.append(lane)
                out.owed_at.append(at)
    return out
