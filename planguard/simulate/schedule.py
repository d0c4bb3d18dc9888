"""An event-driven schedule of a plan: when every action starts and ends under a model of time.

The lanes and matches of the deterministic execution carry clocks: a match completes when its last
member has arrived plus what the communication costs; a lane that awaits it goes on then. Arrivals
and completions form a max-plus system, so the order of steps plays no part. What never completes
in the execution never ends in the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.execution.running.executor import Execution, execute
from planguard.execution.running.expand import expand
from planguard.kernels.twin_rules import ARRIVE, AWAIT
from planguard.options import EAGER_BYTES
from planguard.plan.actions import MEMBER, NONE, is_collective, is_point_to_point
from planguard.semantics.model import Family, find_model, lenient, strict
from planguard.simulate.costs import Links, Rates
from planguard.simulate.edges import Call
from planguard.simulate.entries import COMPUTE, COPY, WAIT, Entries, computations
from planguard.simulate.folded import LARGE, folded
from planguard.simulate.settle import Settled, settle
from planguard.simulate.traffic import primitive_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planguard.plan.plan import Plan
    from planguard.simulate.folded import Folded
    from planguard.simulate.inside.tracks import Tracks


@dataclass(frozen=True)
class Span:
    """One action in time.

    Attributes:
        rank: Global rank.
        action: Action index in the plan.
        member: Index inside a batch, or None.
        kind: ``compute``, ``collective``, ``send``, ``recv``, ``wait`` or ``copy``.
        start: Microseconds since the start of the plan.
        ready: When the last member of its match was there; its own waiting ends here.
        end: Microseconds, or None: never completes.
        match: Number that the members of one match share, or None.
    """

    rank: int
    action: int
    member: int | None
    kind: str
    start: float
    ready: float
    end: float | None
    match: int | None = None


@dataclass(frozen=True)
class Step:
    """One step of training that a trace marks.

    Attributes:
        name: What the trace calls it.
        ranges: Start and end by rank, microseconds.
    """

    name: str
    ranges: Mapping[int, tuple[float, float]]


@dataclass(frozen=True)
class Schedule:
    """The times of one execution of a plan, modeled or measured.

    Attributes:
        plan: The plan.
        model: Name of the execution model.
        spans: All spans, by rank and start.
        makespan: End of the last action that ends, microseconds.
        complete: Whether every rank comes to its end.
        notes: What was settled or assumed.
        basis: ``modeled``, or ``measured`` where a recording says them.
        steps: Steps of training that a trace marks.
        is_timed: Whether times of several ranks can be set against each other: False where clocks
            are not aligned, or the end of a call is not the end of its operation.
        stands: Of a large plan that was run by representatives: the ranks that each of them stands
            for. Empty where every rank has its own spans.
        tracks: By rank, what a trace says of its threads, streams and counters.
    """

    plan: Plan
    model: str
    spans: tuple[Span, ...]
    makespan: float
    complete: bool
    notes: tuple[str, ...] = ()
    basis: str = "modeled"
    steps: tuple[Step, ...] = ()
    is_timed: bool = True
    stands: Mapping[int, Sequence[int]] = field(default_factory=dict)
    tracks: Mapping[int, Tracks] = field(default_factory=dict)

    def all_ranks(self, ranks: Iterable[int]) -> tuple[int, ...]:
        """Return ranks together with those that they stand for, in order."""
        return tuple(sorted(one for rank in ranks for one in self.stands.get(rank, (rank,))))


def schedule(
    plan: Plan, model: str | None = None, rates: Rates | None = None, *, worst: bool = False
) -> Schedule:
    """Give every action of a plan a start and an end.

    Args:
        plan: The plan. What it leaves open is taken as written.
        model: Execution model; the plan's own, else ``nccl``.
        rates: Speeds that the plan does not say.
        worst: Draw the execution that makes the least progress (no buffering, one kernel at a
            time), in which a potential deadlock shows.

    Raises:
        PlanError: The plan cannot be expanded.
    """
    small = folded(plan)
    settled = settle(plan if small is None else small.plan)
    chosen = find_model(model or plan.model or "nccl")
    scenario = strict(chosen) if worst else lenient(chosen, EAGER_BYTES)
    execution = execute(settled.plan, expand(settled.plan), chosen, scenario, origins=True)
    clock = _Clock(settled, execution, rates or Rates(), small)
    spans = clock.run()
    ends = [span.end for span in spans if span.end is not None]
    notes = (*settled.notes, *sorted(clock.notes))
    found = Schedule(plan, chosen.name, spans, max(ends, default=0.0), execution.completes, notes)
    if small is None:
        return found
    own = tuple(replace(span, rank=small.ranks[span.rank]) for span in spans)
    told = (
        f"{len(small.stands):,} of {plan.world_size:,} ranks are drawn: the others run as they do"
    )
    return replace(found, spans=own, stands=small.stands, notes=(*notes, told))


def _asked(members: int) -> Sequence[int]:
    """Return the members whose share is asked for: all of a small group, the ends of a large one.

    A share depends on the place by the remainder of a division alone: the last chunks are short
    (``edges.chunk``), so the extremes stand at the ends.
    """
    if members <= LARGE:
        return range(members)
    return (*range(4), members // 2, *range(members - 4, members))


@dataclass
class _Open:
    """A communication under way."""

    start: float
    matches: list[int] = field(default_factory=list)


class _Clock:
    """Runs the lanes of one execution with a clock on each."""

    def __init__(
        self, settled: Settled, execution: Execution, rates: Rates, small: Folded | None = None
    ) -> None:
        self.small = small
        self.settled, self.execution, self.rates = settled, execution, rates
        self.plan, self.columns, self.lanes = settled.plan, execution.columns, execution.lanes
        self.links = Links(settled.plan, rates)
        self.notes: set[str] = set()
        self.need = list(self.lanes.need)
        self.ready = [0.0] * len(self.need)
        self.cost = [0.0] * len(self.need)
        self.begin = self.ready[:]
        self.queues = execution.model.family is not Family.HOST
        self.home: dict[int, int] = {}
        self.free: dict[int, float] = {}
        self.open: dict[tuple[int, int], _Open] = {}
        self.spans: list[Span] = []
        self.views = Entries(settled, self.columns)
        self._shares: dict[tuple[int, int], float] = {}

    def run(self) -> tuple[Span, ...]:
        """Run all lanes and return the spans."""
        lanes = self.lanes
        n_lanes = len(lanes.lane_rank)
        self.at = list(lanes.lane_off[:n_lanes])
        self.now = [0.0] * n_lanes
        self.computes = computations(self.plan, self.columns, lanes)
        waiting: dict[int, list[int]] = {}
        ready = list(range(n_lanes - 1, -1, -1))
        while ready:
            self._advance(ready.pop(), waiting, ready)
        for lane in range(n_lanes):
            if self.at[lane] >= lanes.lane_off[lane + 1]:
                self._compute(lane, NONE)
        self._close()
        self.spans.sort(key=lambda s: (s.rank, s.start, s.action, s.member or 0))
        return tuple(self.spans)

    def _advance(self, lane: int, waiting: dict[int, list[int]], ready: list[int]) -> None:
        """Run one lane until it stands."""
        lanes = self.lanes
        end = lanes.lane_off[lane + 1]
        rank = lanes.lane_rank[lane]
        while self.at[lane] < end:
            at = self.at[lane]
            word, entry = lanes.code[at], lanes.origin[at]
            match = word >> 2
            if entry != NONE:
                self._compute(lane, entry)
            if word & ARRIVE:
                self._arrive(lane, rank, entry, match, waiting, ready)
            if word & AWAIT:
                if self.need[match]:
                    waiting.setdefault(match, []).append(lane)
                    return
                self._await(lane, rank, entry, match)
            self.at[lane] += 1

    def _arrive(
        self,
        lane: int,
        rank: int,
        entry: int,
        match: int,
        waiting: dict[int, list[int]],
        ready: list[int],
    ) -> None:
        now = self.now[lane]
        self.ready[match] = max(self.ready[match], now)
        members = [] if entry == NONE else self.views.members(rank, entry)
        if members:
            # An entry also arrives at its place in a queue, or at the creation of a communicator:
            # what it moves is charged once, where it meets its partners.
            if match < self.lanes.ext_base:
                # A launch of several messages is over when its largest one is.
                share = max(self._share(rank, member) for member in members)
                self.cost[match] = max(self.cost[match], share)
                self._queue(rank, entry, match)
            self.open.setdefault((rank, entry), _Open(now)).matches.append(match)
        self.need[match] -= 1
        if not self.need[match]:
            self._begin(match)
            for waiter in waiting.pop(match, ()):
                where = self.at[waiter]
                self._await(waiter, self.lanes.lane_rank[waiter], self.lanes.origin[where], match)
                self.at[waiter] += 1
                ready.append(waiter)

    def _queue(self, rank: int, entry: int, match: int) -> None:
        """Remember on which communicator's queue the round of an entry runs, if it has one."""
        columns = self.columns
        at = columns.rank_off[rank] + entry
        if self.queues and is_collective(columns.op[at] & (MEMBER - 1)):
            self.home[match] = columns.slot_ginst[columns.arg[at]]

    def _begin(self, match: int) -> None:
        """Start what everyone has come to: rounds of one communicator run one after the other.

        Its members arrive in order, so rounds come here in order as well.
        """
        home = self.home.get(match)
        self.begin[match] = self.ready[match]
        if home is not None:
            self.begin[match] = max(self.ready[match], self.free.get(home, 0.0))
            self.free[home] = self.begin[match] + self.cost[match]

    def _await(self, lane: int, rank: int, entry: int, match: int) -> None:
        done = self.begin[match] + self.cost[match]
        start = self.now[lane]
        self.now[lane] = max(start, done)
        waits = entry != NONE and not self.views.communicates(rank, entry)
        if waits and self.now[lane] > start and self.views.is_wait(rank, entry):
            action, member = self.views.action(rank, entry)
            self.spans.append(
                Span(rank, action, member, WAIT, start, self.now[lane], self.now[lane])
            )

    def _compute(self, lane: int, before: int) -> None:
        """Let the computations of a lane in front of an entry pass."""
        pending = self.computes.get(lane)
        rank = self.lanes.lane_rank[lane]
        while pending and pending[-1] < before:
            entry = pending.pop()
            action, member = self.views.action(rank, entry)
            start = self.now[lane]
            kind, duration = self._duration(rank, entry)
            self.now[lane] = start + duration
            self.spans.append(Span(rank, action, member, kind, start, start, self.now[lane]))

    def _duration(self, rank: int, entry: int) -> tuple[str, float]:
        node: Any = self.views.node(rank, entry)
        if node.__struct_config__.tag != "compute":
            size = self.views.size(rank, entry) or 0
            return COPY, self.rates.latency_us + size / self.rates.bandwidth * 1e6
        if node.duration_us is not UNSET:
            return COMPUTE, float(node.duration_us)
        if node.flops is not UNSET:
            return COMPUTE, float(node.flops) / self.rates.flops * 1e6
        self.notes.add(f"computations without a duration take {self.rates.step_us:g} us")
        return COMPUTE, self.rates.step_us

    def _share(self, rank: int, entry: int) -> float:
        """Return what an action adds to the duration of its match, microseconds."""
        columns = self.columns
        at = columns.rank_off[rank] + entry
        kind, arg, sig = columns.op[at] & (MEMBER - 1), columns.arg[at], columns.sig[at]
        signature = self.plan.code.signatures[sig]
        size = signature.bytes or 0
        if is_point_to_point(kind):
            src, dst = columns.chan_src[arg], columns.chan_dst[arg]
            return 0.0 if src == NONE else self.links.message_us(src, dst, size)
        key = (arg, sig)
        if key not in self._shares:
            self._shares[key] = self._collective(kind, arg, sig)
        return self._shares[key]

    def _collective(self, kind: int, slot: int, sig: int) -> float:
        columns = self.columns
        ginst = columns.slot_ginst[slot]
        first, last = columns.ginst_off[ginst], columns.ginst_off[ginst + 1]
        members: Sequence[int] = columns.slot_rank[first:last]
        signature = self.plan.code.signatures[sig]
        primitive = primitive_of(kind)
        if primitive is None:
            return self.rates.latency_us
        root = 0 if signature.root is None else list(members).index(signature.root)
        splits = signature.splits[0] if signature.splits else None
        sizes = [signature.bytes or 0]
        if signature.layout is not None:
            sizes = [size for size, _ in signature.layout]
        places: Sequence[int] = (slot - first,)
        if self.small is not None:
            # The slowest member may be one that is not run: what a round costs is asked of all.
            members = self.small.members(members)
            places = _asked(len(members))
        return sum(
            max(
                self.links.collective_us(
                    Call(primitive, len(members), place, size, root, splits), members
                )
                for place in places
            )
            for size in sizes
        )

    def _close(self) -> None:
        """Give every communication its end, the members of a launch that of the launch."""
        pairs = self.views.pairs(tags=self.execution.model.use_tags, first=len(self.need))
        for (rank, entry), found in self.open.items():
            stuck = any(self.need[match] for match in found.matches)
            ready = max(self.ready[match] for match in found.matches)
            end = max(self.begin[match] + self.cost[match] for match in found.matches)
            shared = min(found.matches)  # rounds and pairs come before places in queues
            for member in self.views.members(rank, entry):
                action, place = self.views.action(rank, member)
                self.spans.append(
                    Span(
                        rank,
                        action,
                        place,
                        self.views.kind(rank, member),
                        found.start,
                        max(found.start, ready),
                        None if stuck else max(end, found.start),
                        pairs.get((rank, member), shared),
                    )
                )
