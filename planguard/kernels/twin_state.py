"""Lanes of the rank being lowered, and what its entries wait for (``lowerer.h``, ``lower.cpp``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.kernels.twin_columns import Lanes
from planguard.kernels.twin_layout import Layout
from planguard.kernels.twin_meet import MeetCheck
from planguard.kernels.twin_rules import (
    ARRIVE,
    AWAIT,
    Creation,
    Family,
    LaneKind,
    LowerOptions,
    Rules,
    Signatures,
    Why,
)
from planguard.plan.actions import KIND_MASK, NONE, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.kernels.twin_columns import Columns
    from planguard.kernels.twin_withdraw import Leaving

Matches = tuple[int, ...]
Instruction = tuple[int, int, int]
"""A word of code, the entry it comes from, and why it is there."""

EVERY_LANE = -1
"""An entry is complete for every lane, not only for the one that waited for it."""


@dataclass(slots=True, eq=False)
class Queue:
    """What is still in flight on one communicator of the rank.

    Attributes:
        last: Last entry issued on it, or None.
        own: What of that entry is on this queue.
        lane: Lane it was issued from.
        helper: Lane of the queue itself, while in use.
        direct: The entry is one barrier-like round whose arrival is made on ``lane``.
    """

    last: int | None = None
    own: Matches = ()
    lane: int = 0
    helper: int | None = None
    direct: bool = False


@dataclass(slots=True)
class Launch:
    """One launch under construction.

    Attributes:
        before: Matches that must be complete before it starts.
        pre: Match that gates it: a broadcast that comes down a tree.
        arrive: Matches at which it arrives.
        awaits: Matches that complete it.
        queues: Queues it occupies.
        direct: It arrives at a barrier-like round.
        chained: The round before that one is of the same communicator.
    """

    before: list[int] = field(default_factory=list)
    pre: int | None = None
    arrive: list[int] = field(default_factory=list)
    awaits: list[int] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    direct: bool = False
    chained: bool = False


class LoweringState:
    """Everything the parts of lowering share: tables of the plan, state of the current rank."""

    def __init__(
        self,
        columns: Columns,
        sigs: Signatures,
        rules: Rules,
        options: LowerOptions,
        *,
        may_chain: bool,
    ) -> None:
        self.columns, self.sigs, self.rules, self.options = columns, sigs, rules, options
        self.out = Lanes()
        self.layout = Layout(columns, rules, self.out)
        self.check = MeetCheck(columns, sigs, rules, self.out)
        kinds = {op & KIND_MASK for op in columns.op}
        creates = rules.new_group == Creation.WORLD and columns.has_new_group
        self.host_may_block = rules.family != Family.HOST and (
            rules.lazy_init
            or columns.has_stream
            or creates
            or Kind.INIT in kinds
            or options.threads
        )
        self.exits_withdraw = (
            rules.exit_withdraws and Kind.EXIT in kinds and rules.family == Family.HOST
        )
        # One queue, several streams: what a stream comes after matters to a host that waits for it.
        one_queue = rules.device and rules.single_queue
        self.tracks_streams = one_queue and self.host_may_block and columns.has_stream
        dies = rules.poison_drops and columns.has_drop
        exact = options.origins or options.forced or rules.worker or self.exits_withdraw or dies
        self.chains = may_chain and not exact
        self.out_of_order = False
        self.leaving: list[Leaving] = []
        self.queues: dict[tuple[int, ...], Queue] = {}
        self.created_comms: set[tuple[int, ...]] = set()
        self.rank = 0

    def start_rank(self, rank: int) -> None:
        """Forget the rank before and open the lane of the next one."""
        self.rank = rank
        self.begin = self.columns.rank_off[rank]
        self.lanes: list[list[Instruction]] = [[]]
        self.kinds = [LaneKind.PROGRAM]
        self.tail: list[int | None] = [None]
        self.stream_lane: dict[int, int] = {0: 0}
        self.host: int | None = None
        self.gate: int | None = None
        self.awaits: dict[int, Matches] = {}
        self.done: dict[int, int] = {}
        self.pending: list[int] = []
        self.arrived_at: dict[int, tuple[int, int]] = {}
        self.code_end: dict[int, int] = {}
        self.solid: dict[int, int | None] = {}
        self.front: dict[int, int] = {}
        self.events: dict[int, int] = {}
        self.rounds: list[tuple[int, int]] = []
        self.poison: list[tuple[int, int, int, bool]] = []
        self.dropped: set[int] = set()
        self.last_block: int | None = None
        self.last_solid: int | None = None
        self.groups_made = self.groups_entered = 0
        self.ended = False

    # --- entries -----------------------------------------------------------------------------

    def kind_at(self, at: int) -> int:
        """Return the kind of an entry of the whole plan."""
        return self.columns.op[at] & KIND_MASK

    def is_forced(self, match: int) -> bool:
        """Tell whether the members of a round meet whatever they issue there."""
        return match < self.out.ext_base and match in self.options.forced

    # --- lanes -------------------------------------------------------------------------------

    def put(self, lane: int, match: int, flags: int, entry: int, why: Why) -> None:
        """Append an instruction to a lane."""
        self.lanes[lane].append((match << 2 | flags, entry, why))

    def put_round(self, lane: int, match: int, entry: int, why: Why, *, chained: bool) -> None:
        """Arrive at a round and wait for it.

        Where the lane stands at the round before, it goes on at once: when a round is complete, all
        before it are (docs/adr/0017).
        """
        code = self.lanes[lane]
        if self.chains and chained and code and code[-1][0] == (match - 1) << 2 | ARRIVE | AWAIT:
            code[-1] = (match - 1) << 2 | ARRIVE, *code[-1][1:]
        self.put(lane, match, ARRIVE | AWAIT, entry, why)

    def must_unchain(self) -> bool:
        """Tell whether rounds were chained although a member does not arrive at them in order."""
        return self.chains and (self.out_of_order or bool(self.out.broken))

    def put_awaits(self, lane: int, matches: Iterable[int], entry: int, why: Why) -> None:
        """Let a lane wait for every one of some matches."""
        for match in matches:
            self.put(lane, match, AWAIT, entry, why)

    def add_lane(self, kind: LaneKind) -> int:
        """Open one more lane of this rank."""
        self.lanes.append([])
        self.kinds.append(kind)
        self.tail.append(None)
        return len(self.lanes) - 1

    def lane_of(self, at: int) -> int:
        """Return the lane of the stream at which an entry is issued."""
        if not self.columns.has_stream or not self.rules.parallel:
            return 0
        stream = self.columns.stream[at]
        lane = self.stream_lane.get(stream)
        if lane is None:
            lane = self.stream_lane[stream] = self.add_lane(LaneKind.PROGRAM)
            if self.gate is not None:
                self.put(lane, self.gate, AWAIT, NONE, Why.GATE)
        return lane

    def host_lane(self) -> int:
        """Return the lane of the host itself."""
        if self.host is None:
            self.host = self.add_lane(LaneKind.HOST)
        return self.host

    def close_gate(self) -> None:
        """Let everything issued from here on wait until the host got this far."""
        if self.options.threads:
            return  # every launch waits for the host of its own thread
        self.gate = self.layout.token(self.rank, NONE)
        self.put(self.host_lane(), self.gate, ARRIVE, NONE, Why.GATE)
        for _, lane in sorted(self.stream_lane.items()):
            self.put(lane, self.gate, AWAIT, NONE, Why.GATE)

    # --- completion --------------------------------------------------------------------------

    def await_entry(self, lane: int, entry: int, cause: int, why: Why) -> None:
        """Let a lane wait until an entry is complete."""
        self.put_awaits(lane, self.awaits[entry], cause, why)
        self.done.setdefault(entry, lane)

    def finished(self, queue: Queue, lane: int) -> bool:
        """Tell whether a lane comes after everything that is in flight on a queue."""
        assert queue.last is not None  # noqa: S101  # asked of queues in use only
        return not queue.own or self.done.get(queue.last) in {lane, EVERY_LANE}

    def block_host(self, target: int) -> None:
        """Note that the host of a worker waits for an entry."""
        self.last_block = target if self.last_block is None else max(self.last_block, target)

    def advance_front(self, at: int, to: int | None) -> None:
        """Let the stream of an entry come after a launch of the only queue."""
        stream = self.columns.stream[at]
        if to is not None:
            self.front[stream] = max(self.front.get(stream, to), to)
