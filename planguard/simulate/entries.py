"""What the entries of a plan's columns are: actions, kinds, and the lane that computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.plan.actions import MEMBER, NONE, Kind, is_collective, is_point_to_point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.plan import Plan
    from planguard.simulate.settle import Settled

COMPUTE = "compute"
COLLECTIVE = "collective"
SEND = "send"
RECV = "recv"
WAIT = "wait"
COPY = "copy"
KINDS = (COMPUTE, COLLECTIVE, SEND, RECV, WAIT, COPY)
"""What a span may be."""


class Entries:
    """What the entries of the columns are in the plan."""

    def __init__(self, settled: Settled, columns: Any) -> None:
        self.settled, self.columns = settled, columns
        self._actions: dict[int, list[tuple[int, int | None]]] = {}

    def op(self, rank: int, entry: int) -> int:
        """Return the kind of instruction."""
        return int(self.columns.op[self.columns.rank_off[rank] + entry]) & (MEMBER - 1)

    def communicates(self, rank: int, entry: int) -> bool:
        """Whether an entry takes part in a match."""
        op = self.op(rank, entry)
        return is_collective(op) or is_point_to_point(op)

    def members(self, rank: int, entry: int) -> list[int]:
        """Return the communications of an entry: itself, the messages of a batch, or none."""
        if self.communicates(rank, entry):
            return [entry]
        if self.op(rank, entry) != Kind.BATCH:
            return []
        start, end = self.columns.rank_off[rank], self.columns.rank_off[rank + 1]
        found = []
        for member in range(entry + 1, end - start):
            if not self.columns.op[start + member] & MEMBER:
                break
            found.append(member)
        return found

    def pairs(self, *, tags: bool, first: int) -> dict[tuple[int, int], int]:
        """Return a number for every message, by rank and entry of its send and of its receive.

        The n-th send of a channel meets its n-th receive. Messages from anybody have no number.

        Args:
            tags: Tags tell channels apart.
            first: The first number.
        """
        columns = self.columns
        counts: dict[tuple[int, ...], int] = {}
        numbers: dict[tuple[int, ...], int] = {}
        found: dict[tuple[int, int], int] = {}
        for rank in range(len(columns.rank_off) - 1):
            start = columns.rank_off[rank]
            for at in range(start, columns.rank_off[rank + 1]):
                kind, channel = columns.op[at] & (MEMBER - 1), columns.arg[at]
                if not is_point_to_point(kind):
                    continue
                ends = columns.chan_src[channel], columns.chan_dst[channel]
                if NONE in ends or kind == Kind.PROBE:
                    continue
                tag = columns.chan_tag[channel] if tags else 0
                key = (columns.chan_ginst[channel], *ends, tag)
                side = (self.kind(rank, at - start) == SEND, *key)
                counts[side] = counts.get(side, 0) + 1
                met = (*key, counts[side])
                found[rank, at - start] = numbers.setdefault(met, first + len(numbers))
        return found

    def is_wait(self, rank: int, entry: int) -> bool:
        """Whether an entry stands until something else is complete."""
        return self.op(rank, entry) in {Kind.WAIT, Kind.WAIT_MANY, Kind.HOST_SYNC, Kind.EVENT_WAIT}

    def kind(self, rank: int, entry: int) -> str:
        """Return the kind of span of a communication."""
        op = self.op(rank, entry)
        if is_collective(op):
            return COLLECTIVE
        return RECV if op in {Kind.RECV, Kind.PROBE} else SEND

    def action(self, rank: int, entry: int) -> tuple[int, int | None]:
        """Return action index and member in the original plan."""
        index, member = self._of(rank)[entry]
        return self.settled.original(rank, index), member

    def _of(self, rank: int) -> list[tuple[int, int | None]]:
        found = self._actions.get(rank)
        if found is None:
            found, action, member = [], -1, 0
            columns = self.columns
            for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
                if columns.op[at] & MEMBER:
                    found.append((action, member))
                    member += 1
                else:
                    action, member = action + 1, 0
                    found.append((action, None))
            self._actions[rank] = found
        return found

    def node(self, rank: int, entry: int) -> Any:
        """Return the action as it stands in the plan."""
        index, member = self._of(rank)[entry]
        return self.settled.plan.action_at(rank, index, member).action

    def size(self, rank: int, entry: int) -> int | None:
        """Return the bytes it moves, if the plan says so."""
        at = self.columns.rank_off[rank] + entry
        found: int | None = self.settled.plan.code.signatures[self.columns.sig[at]].bytes
        return found


def computations(plan: Plan, columns: Any, lanes: Any) -> dict[int, list[int]]:
    """Return the computations that every lane executes, last first.

    A rank with one program lane executes all of them there; with several, each lane has those of
    the stream of its own first entry.
    """
    programs: dict[int, list[int]] = {}
    for lane, (rank, kind) in enumerate(zip(lanes.lane_rank, lanes.lane_kind, strict=True)):
        if kind == 0:
            programs.setdefault(rank, []).append(lane)
    found: dict[int, list[int]] = {}
    for rank in range(plan.world_size):
        start, end = columns.rank_off[rank], columns.rank_off[rank + 1]
        own = programs.get(rank, [])
        if not own:
            continue
        of_stream = _streams(columns, lanes, rank, own)
        for at in range(end - 1, start - 1, -1):
            if columns.op[at] & (MEMBER - 1) in {Kind.COMPUTE, Kind.COPY}:
                stream = columns.stream[at] if len(columns.stream) else 0
                found.setdefault(of_stream.get(stream, own[0]), []).append(at - start)
    return found


def _streams(columns: Any, lanes: Any, rank: int, own: Sequence[int]) -> dict[int, int]:
    if not len(columns.stream) or len(own) == 1:
        return {}
    start = columns.rank_off[rank]
    found: dict[int, int] = {}
    for lane in own:
        for at in range(lanes.lane_off[lane], lanes.lane_off[lane + 1]):
            if lanes.origin[at] != NONE:
                found.setdefault(columns.stream[start + lanes.origin[at]], lane)
                break
    return found
