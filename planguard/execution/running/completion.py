"""The order in which the communication of a run completed.

The lanes of the run say when each match was complete; an operation is complete with the last of
the matches it takes part in. What needs nobody completes as soon as its host gets there.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from planguard import kernels
from planguard.execution.running.expand import expand
from planguard.kernels.twin_columns import Lanes
from planguard.kernels.twin_layout import EDGE, Layout
from planguard.kernels.twin_rules import ARRIVE, AWAIT, Degree, Rules
from planguard.plan.actions import (
    KIND_MASK,
    MEMBER,
    NONE,
    SEND_KINDS,
    Kind,
    is_collective,
    is_point_to_point,
)
from planguard.semantics.model import rules_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.certificate.format import Step
    from planguard.execution.running.executor import Execution

NEVER = -1


def completion_order(execution: Execution) -> Iterator[Step]:
    """Yield the operations of a run in an order in which they completed.

    Args:
        execution: A run of the strict scenario of its model with ``origins=True``.
    """
    return _Completion(execution).order()


class _Completion:
    """When every operation of one run completed."""

    def __init__(self, execution: Execution) -> None:
        rules = rules_for(execution.model, execution.scenario)
        self._execution, self._rules = execution, Rules.of(rules)
        # The compiled columns keep to themselves which communicator a channel belongs to.
        columns = expand(execution.plan, implementation=kernels.use("python"))
        self._layout = Layout(columns, self._rules, Lanes())
        self._times = _match_times(execution.lanes)
        self._edges = self._edge_times()

    def order(self) -> Iterator[Step]:
        """Yield ``(rank, action)`` or ``(rank, action, member)`` by time of completion."""
        done: list[tuple[int, bool, int, int, int]] = []
        for rank in range(self._execution.columns.world_size):
            done += self._of_rank(rank)
        for _, _, rank, action, member in sorted(done):
            yield (rank, action) if member < 0 else (rank, action, member)

    def _of_rank(self, rank: int) -> Iterator[tuple[int, bool, int, int, int]]:
        """Yield time, whether it only had to be reached, and place of each operation."""
        columns, action, member, created, latest = self._execution.columns, -1, -1, 0, NEVER
        marks: _Marks | None = None
        for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
            op, arg = columns.op[at], columns.arg[at]
            kind, in_batch = op & KIND_MASK, bool(op & MEMBER)
            action, member = (action, member + 1) if in_batch else (action + 1, -1)
            if kind == Kind.EXIT:
                return
            if kind == Kind.NEW_GROUP:
                self._layout.create_group(rank, arg, created)
                created += 1
            if not is_collective(kind) and (kind == Kind.PROBE or not is_point_to_point(kind)):
                continue
            time = self._time(rank, self._number(kind, arg, in_batch=in_batch))
            is_free = self._needs_nobody(at)
            if is_free:
                marks = marks or _Marks(self._execution.lanes, self._times, rank)
                time = marks.before(at - columns.rank_off[rank] - member - 1)
            # Where operations queue, a member of a batch comes after the ones before it.
            latest = time if member < 1 else max(time, latest)
            if time > NEVER or is_free:
                yield latest if is_free else time, is_free, rank, action, member

    def _number(self, kind: int, arg: int, *, in_batch: bool) -> int:
        if is_collective(kind):
            return self._layout.next_round(arg)
        return self._layout.next_pair(arg, send=kind in SEND_KINDS, batched=in_batch)

    def _needs_nobody(self, at: int) -> bool:
        """Whether an operation completes with nobody there: buffered, alone, or empty on gloo."""
        columns, code = self._execution.columns, self._execution.plan.code
        kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
        if kind == Kind.BSEND:
            return self._rules.send_modes
        if self._rules.degree[kind] != Degree.ALL and not self._rules.pre_barrier:
            ginst = columns.slot_ginst[arg]
            return bool(columns.ginst_off[ginst + 1] - columns.ginst_off[ginst] == 1)
        return bool(self._rules.empty_alone[kind]) and code.sig_bytes[columns.sig[at]] == 0

    def _time(self, rank: int, number: int) -> int:
        return max(self._times[number], self._edges.get((rank, number), NEVER))

    def _edge_times(self) -> dict[tuple[int, int], int]:
        """Return when a rank was through with all its transfers of a rooted collective."""
        lanes, columns = self._execution.lanes, self._execution.columns
        times: dict[tuple[int, int], list[int]] = {}
        for match in range(lanes.ext_base, len(lanes.need)):
            word, number, *places = lanes.ext(match)
            if word >> 24 == EDGE >> 24:
                ginst = lanes.comm_ginst[bisect_right(lanes.comm_base, number) - 1]
                for place in places:
                    rank = columns.slot_rank[columns.ginst_off[ginst] + place]
                    times.setdefault((rank, number), []).append(self._times[match])
        return {key: max(found) if NEVER not in found else NEVER for key, found in times.items()}


class _Marks:
    """How far a host has to be before it gets to an action; the host is the rank's first lane."""

    def __init__(self, lanes: Any, times: list[int], rank: int) -> None:
        lane = bisect_right(lanes.lane_rank, rank - 1)
        self._entries: list[int] = []
        self._times: list[int] = []
        latest, entry = NEVER, -1
        for at in range(lanes.lane_off[lane], lanes.lane_off[lane + 1]):
            if lanes.code[at] & AWAIT:
                latest = max(latest, times[lanes.code[at] >> 2])
                # What has no origin gates everything behind it.
                entry = entry if lanes.origin[at] == NONE else lanes.origin[at]
                self._entries.append(entry)
                self._times.append(latest)

    def before(self, entry: int) -> int:
        """Return when the last thing was complete that blocked the host before an entry."""
        known = bisect_right(self._entries, entry - 1)
        return self._times[known - 1] if known else NEVER


def _match_times(lanes: Any) -> list[int]:
    """Return the tick at which each match was complete, ``NEVER`` if it was not."""
    need, code, offsets = list(lanes.need), lanes.code, lanes.lane_off
    times = [NEVER] * len(need)
    pc = list(offsets[: len(lanes.lane_rank)])
    waiting: dict[int, list[int]] = {}
    ready, tick = list(range(len(pc) - 1, -1, -1)), 0
    while ready:
        lane = ready.pop()
        at = pc[lane]
        while at < offsets[lane + 1]:
            word, match = code[at], code[at] >> 2
            if word & ARRIVE:
                need[match] -= 1
                if not need[match]:
                    times[match], tick = tick, tick + 1
                    for waiter in waiting.pop(match, ()):
                        pc[waiter] += 1
                        ready.append(waiter)
            if word & AWAIT and need[match]:
                waiting.setdefault(match, []).append(lane)
                break
            at += 1
        pc[lane] = at
    return times
