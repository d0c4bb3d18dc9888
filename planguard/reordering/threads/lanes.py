"""Host threads as lanes: every thread of a rank blocks alone, and calls are issued in one order.

The plan is written as one program per rank, its threads interleaved in one order. Lowered like any
other plan it has one lane per host. That lane is taken apart:

```
host      main ... fork(b) join(b) ... main
thread 0      fork> a0 a1 .......... >join        fork> waits for the host to get there,
thread 1      fork> b0 [a1>] b1 .... >join        join waits for every thread,
                                                  [a1>] is a gate: a1 was called before
```

Which calls meet follows from the order in which a rank issues them on one communicator or
channel. A **gate** holds a call back until the calls of other threads that stand before it in the
written order, on the same communicator or channel, have been made. All of that are AND-waits, so
a run still ends in one state (theorem 1). A run that ends with a thread at a gate is no execution:
nothing would keep that thread from going on. Every execution is a run of the order in which it
made its calls (docs/explanation/threads.md).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.kernels import current
from planguard.kernels.python import blockers, run
from planguard.kernels.twin_rules import ARRIVE, AWAIT
from planguard.plan.actions import MEMBER, NONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.execution.project import Projection
    from planguard.execution.running.executor import Execution

TOKEN = 4 << 24
GATE = 9

Home = tuple[int, int] | None
"""Block and thread of an action, or None for the main program."""
Before = tuple[int, ...]
"""Actions of other threads that are called before an action."""


@dataclass(frozen=True)
class Call:
    """One action of a rank's written program: its thread, and the calls it comes after."""

    home: Home = None
    behind: Before = ()


@dataclass
class ThreadLanes:
    """Lanes with one lane per thread; the attributes of lowered lanes, native or not."""

    base: Any
    code: array[int] = field(default_factory=lambda: array("I"))
    lane_off: array[int] = field(default_factory=lambda: array("Q"))
    lane_rank: array[int] = field(default_factory=lambda: array("I"))
    lane_kind: array[int] = field(default_factory=lambda: array("B"))
    lane_soft: array[int] = field(default_factory=lambda: array("Q"))
    need: array[int] = field(default_factory=lambda: array("I"))
    origin: array[int] = field(default_factory=lambda: array("I"))
    why: array[int] = field(default_factory=lambda: array("B"))
    gates: set[int] = field(default_factory=set)
    tokens: list[tuple[int, int, int, int]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        """Return what taking lanes apart leaves alone."""
        return getattr(self.base, name)

    def ext(self, match: int) -> Any:
        """Return the name of an extra match; forks, joins and gates are tokens of their rank."""
        own = match - len(self.base.need)
        return self.tokens[own] if own >= 0 else self.base.ext(match)

    def token(self, rank: int, needs: int) -> int:
        """Return a new match."""
        self.need.append(needs)
        self.tokens.append((TOKEN, rank, 0, 0))
        return len(self.need) - 1

    def put(self, match: int, flags: int, entry: int = NONE, why: int = GATE) -> None:
        """Append an instruction to the lane that is being written."""
        self.code.append(match << 2 | flags)
        self.origin.append(entry)
        self.why.append(why)

    def copy(self, at: int) -> None:
        """Append an instruction of the lanes as they were lowered."""
        self.code.append(self.base.code[at])
        self.origin.append(self.base.origin[at])
        self.why.append(self.base.why[at])

    def open(self, rank: int, kind: int) -> None:
        """Begin a lane."""
        self.lane_off.append(len(self.code))
        self.lane_rank.append(rank)
        self.lane_kind.append(kind)


@dataclass(frozen=True)
class ThreadKernels:
    """Kernels that run the threads of a rank as lanes of their own.

    Attributes:
        calls: Per rank, what every action of its written program is.
    """

    calls: Sequence[Sequence[Call]]

    def lower(self, columns: Any, *rest: Any) -> Any:
        """Lower a plan and take the lanes of its threads apart; origins are always kept."""
        *tables, _, forced = rest
        lanes = current().lower(columns, *tables, True, forced)
        if lanes.overflow:
            return lanes
        return _Split(lanes, columns, self.calls).lanes()

    @staticmethod
    def run(lanes: Any) -> Any:
        """Run every lane until it waits."""
        return run(lanes)

    @staticmethod
    def blockers(lanes: Any, state: Any) -> Any:
        """Return the stuck lanes and what they owe."""
        return blockers(lanes, state)

    def projected(self, projection: Projection) -> ThreadKernels:
        """Return the kernels of a plan cut down to some of its actions."""
        return ThreadKernels(
            [
                [self._kept(rank, at, actions) for at in actions]
                for rank, actions in zip(projection.ranks, projection.actions, strict=True)
            ]
        )

    def _kept(self, rank: int, at: int, actions: Sequence[int]) -> Call:
        call = self.calls[rank][at]
        behind = [actions.index(other) for other in call.behind if other in actions]
        return Call(call.home, tuple(behind))


class _Split:
    """Takes the host lanes of one lowered plan apart."""

    def __init__(self, base: Any, columns: Any, calls: Sequence[Sequence[Call]]) -> None:
        self.base, self.columns, self.calls = base, columns, calls
        self.out = ThreadLanes(base)
        self.out.need.extend(base.need)

    def lanes(self) -> ThreadLanes:
        base, known = self.base, -1
        for lane in range(len(base.lane_rank)):
            rank = base.lane_rank[lane]
            words = range(base.lane_off[lane], base.lane_off[lane + 1])
            is_host = rank != known
            known = rank
            if is_host and any(call.home for call in self.calls[rank]):
                self._host(rank, lane, words)
                continue
            self.out.open(rank, base.lane_kind[lane])
            shift = len(self.out.code) - base.lane_off[lane]
            for at in words:
                self.out.copy(at)
            if len(base.lane_soft):
                self.out.lane_soft.append(base.lane_soft[lane] + shift)
        self.out.lane_off.append(len(self.out.code))
        return self.out

    def _host(self, rank: int, lane: int, words: range) -> None:
        """Write the lane of a main program and those of its threads."""
        actions = actions_of(self.columns, rank)
        calls, base = self.calls[rank], self.base
        homes: dict[Home, list[int]] = {None: []}
        for at in words:
            entry = base.origin[at]
            home = None if entry == NONE else calls[actions[entry]].home
            if home is not None and home not in homes:
                first = all(other is None or other[0] != home[0] for other in homes)
                if first:
                    homes[None].append(-1 - home[0])
                homes[home] = []
            homes[home].append(at)
        forks = {-1 - at: self.out.token(rank, 1) for at in homes[None] if at < 0}
        joins = {
            block: self.out.token(rank, sum(1 for home in homes if home and home[0] == block))
            for block in forks
        }
        kind = base.lane_kind[lane]
        self.out.open(rank, kind)
        for at in homes[None]:
            if at >= 0:
                self.out.copy(at)
            else:
                self.out.put(forks[-1 - at], ARRIVE)
                self.out.put(joins[-1 - at], AWAIT)
        self._end()
        gates = self._gates(rank, {actions[base.origin[at]] for h in homes if h for at in homes[h]})
        for home, own in homes.items():
            if home is not None:
                self.out.open(rank, kind)
                self.out.put(forks[home[0]], AWAIT)
                self._thread(rank, own, actions, gates)
                self.out.put(joins[home[0]], ARRIVE)
                self._end()

    def _end(self) -> None:
        if len(self.base.lane_soft):
            self.out.lane_soft.append(len(self.out.code))

    def _gates(self, rank: int, present: set[int]) -> dict[int, int]:
        """Return the gate that opens when an action is called, for actions others come after."""
        awaited = {a for at in present for a in self.calls[rank][at].behind if a in present}
        gates = {action: self.out.token(rank, 1) for action in sorted(awaited)}
        self.out.gates.update(gates.values())
        return gates

    def _thread(
        self, rank: int, words: list[int], actions: list[int], gates: dict[int, int]
    ) -> None:
        known = None
        for at in words:
            entry = self.base.origin[at]
            action = actions[entry]
            if action != known:
                for other in self.calls[rank][action].behind:
                    if other in gates:
                        self.out.put(gates[other], AWAIT, entry)
                if action in gates:
                    self.out.put(gates[action], ARRIVE)
                known = action
            self.out.copy(at)


def actions_of(columns: Any, rank: int) -> list[int]:
    """Return the action of every entry of a rank; members belong to their batch."""
    found, index = [], -1
    for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
        index += not columns.op[at] & MEMBER
        found.append(index)
    return found


def at_gates(execution: Execution) -> bool:
    """Tell whether a run ended with a thread held back by nothing but the order that was asked."""
    lanes, state = execution.lanes, execution.state
    return any(_stands_at(lanes, lane, at) in lanes.gates for lane, at in enumerate(state.pc))


def _stands_at(lanes: Any, lane: int, at: int) -> int:
    return int(lanes.code[at] >> 2) if at < lanes.lane_off[lane + 1] else -1


def orders_of(threads: Sequence[Sequence[set[Any]]]) -> Iterator[list[tuple[int, int]]]:
    """Yield one interleaving of threads per way to order the calls that share a queue.

    Sleep sets: two interleavings that differ only in the order of calls without a common queue
    are one; each way is yielded once (Godefroid; every trace exactly once for a fixed order of
    exploration).

    Args:
        threads: Per thread and call, the queues on which the call takes a position.

    Yields:
        ``(thread, place in the thread)`` of all calls.
    """
    # One frame per call that was made: places, threads that sleep, threads tried, threads left.
    count = len(threads)
    order: list[tuple[int, int]] = []

    def frame(at: tuple[int, ...], asleep: frozenset[int]) -> _Frame:
        return _Frame(at, asleep, iter([t for t in range(count) if at[t] < len(threads[t])]))

    frames = [frame((0,) * count, frozenset())]
    if not any(threads):
        yield []
        return
    while frames:
        top = frames[-1]
        thread = next((t for t in top.left if t not in top.asleep), None)
        if thread is None:
            frames.pop()
            del order[-1:]
            if frames and frames[-1].last is not None:
                frames[-1].done.add(frames[-1].last)
            continue
        at, top.last = top.at, thread
        mine = threads[thread][at[thread]]
        kept = {t for t in top.asleep | top.done if not threads[t][at[t]] & mine}
        after = (*at[:thread], at[thread] + 1, *at[thread + 1 :])
        order.append((thread, at[thread]))
        if all(place == len(calls) for place, calls in zip(after, threads, strict=True)):
            yield list(order)
            order.pop()
            top.done.add(thread)
        else:
            frames.append(frame(after, frozenset(kept)))


@dataclass
class _Frame:
    """One step of the enumeration of interleavings."""

    at: tuple[int, ...]
    asleep: frozenset[int]
    left: Iterator[int]
    done: set[int] = field(default_factory=set)
    last: int | None = None
