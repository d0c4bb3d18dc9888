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

Above 400 lines: the lanes, the tokens that hold them up, and the orders of calls they are run in.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planguard.kernels import current
from planguard.kernels.twin_rules import ARRIVE, AWAIT, Rules
from planguard.plan.actions import ASYNC, KIND_MASK, Kind
from planguard.reordering.lanes import Last, OwnKernels, OwnLanes, actions_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from planguard.execution.project import Projection

Home = tuple[tuple[int, int], ...]
"""Block and thread of an action, outermost first; empty for the main program."""
Before = tuple[int, ...]
"""Actions of other threads that are called before an action."""


@dataclass(frozen=True)
class Call:
    """One action of a rank's written program: its thread, and the calls it comes after.

    Attributes:
        home: Its thread.
        behind: Calls before which another thread would be free to make this one.
        after: Calls that its thread waits for: by `after`, a handle or a result.
        is_last: The rank leaves while its thread may stand in it: nothing waits for its end.
    """

    home: Home = ()
    behind: Before = ()
    after: Before = ()
    is_last: bool = False


def widened(calls: Sequence[Call], widths: Sequence[int]) -> list[Call]:
    """Return the calls of a program in which several actions stand for one.

    What others wait for is that the first of them is made, and only that one waits for others.

    Args:
        calls: The calls.
        widths: How many actions stand for each of them; none for what stands behind an exit.
    """
    place = [0, *itertools.accumulate(widths)]

    def moved(others: Before) -> Before:
        return tuple(place[other] for other in others)

    found: list[Call] = []
    for call, width in zip(calls, widths, strict=False):
        first = replace(call, behind=moved(call.behind), after=moved(call.after))
        found += [first, *[replace(call, behind=(), after=())] * (width - 1)]
    return found


def is_beside(one: Home, other: Home) -> bool:
    """Tell whether two threads run side by side: neither of them forks and joins the other."""
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            return mine[0] == its[0]
    return False


@dataclass(frozen=True)
class ThreadKernels(OwnKernels):
    """Kernels that run the threads of a rank as lanes of their own.

    Attributes:
        calls: Per rank, what every action of its written program is.
        base: Kernels that lower the plan as if it had no threads; those in use where None.
        last: The last lowering of the search that they belong to.
    """

    calls: Sequence[Sequence[Call]]
    base: Any = None
    last: Last = field(default_factory=Last, compare=False, repr=False)

    def lower(self, columns: Any, *rest: Any) -> Any:
        """Lower a plan and take the lanes of its threads apart; origins are always kept."""
        *tables, rules, _, forced = rest
        return self.last.lowered(
            self, rules, forced, lambda: self._lanes(columns, *tables, rules, True, forced)
        )

    def _lanes(self, columns: Any, *rest: Any) -> Any:
        """Return the lanes, with those of the threads apart."""
        lanes = (self.base or current()).lower(columns, *rest)
        if lanes.overflow:
            return lanes
        *_, rules, _, _ = rest
        is_checked = Rules.of(rules).pre_barrier
        return _Split(lanes, columns, self.calls, is_checked=is_checked).lanes()

    def projected(self, projection: Projection) -> ThreadKernels:
        """Return the kernels of a plan cut down to some of its actions."""
        return ThreadKernels(
            [
                [self._kept(rank, at, actions) for at in actions]
                for rank, actions in zip(projection.ranks, projection.actions, strict=True)
            ],
            self.base and self.base.projected(projection),
        )

    def _kept(self, rank: int, at: int, actions: Sequence[int]) -> Call:
        call = self.calls[rank][at]
        place = {action: number for number, action in enumerate(actions)}

        def kept(others: Before) -> Before:
            return tuple(place[other] for other in others if other in place)

        return replace(call, behind=kept(call.behind), after=kept(call.after))


class Tokens:
    """The tokens by which the threads of a rank hold each other up.

    Attributes:
        forks: Per block of threads, what its threads begin with.
        joins: Per block, what the thread that forked waits for.
        gates: What opens when a call takes its turn, for calls that others stand behind.
        called: What opens when a call is made, for calls that others wait for.
        done: Waits, each with a call that it waits for the end of, which blocks its own thread.
        ended: What opens when such a call is done.
    """

    def __init__(
        self,
        out: OwnLanes,
        rank: int,
        calls: Sequence[Call],
        homes: Iterable[Home],
        done: Collection[tuple[int, int]] = (),
    ) -> None:
        count = Counter(home[-1][0] for home in homes if home)
        self.out, self.calls = out, calls
        self.forks = {block: out.token(rank, 1) for block in count}
        self.joins = {block: out.token(rank, number) for block, number in count.items()}
        behind = {one for call in calls for one in call.behind}
        self.gates = {action: out.token(rank, 1) for action in sorted(behind)}
        out.gates.update(self.gates.values())
        after = {one for call in calls for one in call.after}
        self.called = {action: out.token(rank, 1) for action in sorted(after)}
        self.done = done
        self.ended = {action: out.token(rank, 1) for action in sorted({one for _, one in done})}

    def begin(self, home: Home) -> None:
        """Let a thread begin when it is forked."""
        if home:
            self.out.put(self.forks[home[-1][0]], AWAIT)

    def end(self, home: Home) -> None:
        """Let a thread end: it is ready to be joined."""
        if home:
            self.out.put(self.joins[home[-1][0]], ARRIVE)

    def fork(self, block: int) -> None:
        """Begin the threads of a block, and wait for all of them."""
        self.out.put(self.forks[block], ARRIVE)
        self.out.put(self.joins[block], AWAIT)

    def call(self, action: int) -> None:
        """Begin a call, once those have been made that its thread waits for."""
        for other in self.calls[action].after:
            is_done = (action, other) in self.done
            self.out.put((self.ended if is_done else self.called)[other], AWAIT)

    def made(self, action: int) -> None:
        """Say that a call has been made, behind what it makes first: others may wait for that."""
        if action in self.called:
            self.out.put(self.called[action], ARRIVE)

    def turn(self, action: int) -> None:
        """Let a call take its place behind those that the order puts before it."""
        for other in self.calls[action].behind:
            self.out.put(self.gates[other], AWAIT)
        if action in self.gates:
            self.out.put(self.gates[action], ARRIVE)


class Homes(dict[Home, list[int]]):
    """What every thread of a rank does, in its order; a fork is ``-1 - block``."""

    def __init__(self) -> None:
        super().__init__({(): []})
        self.known = set[int]()

    def put(self, home: Home, what: int) -> None:
        """Append to a thread; the blocks around it are forked where they first come up."""
        for depth, (block, _) in enumerate(home):
            if block not in self.known:
                self.known.add(block)
                self[home[:depth]].append(-1 - block)
            self.setdefault(home[: depth + 1], [])
        self[home].append(what)


_WAITS = {Kind.WAIT, Kind.WAIT_MANY}


class _Split:
    """Takes the host lanes of one lowered plan apart."""

    def __init__(
        self, base: Any, columns: Any, calls: Sequence[Sequence[Call]], *, is_checked: bool
    ) -> None:
        self.base, self.columns, self.calls = base, columns, calls
        self.is_checked = is_checked
        self.out = OwnLanes(base)
        self.out.need.extend(base.need)

    def lanes(self) -> OwnLanes:
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
        # Also of calls that do nothing themselves: others may come after them.
        made: dict[int, list[int]] = {action: [] for action in sorted(set(actions))}
        for at in words:
            made[actions[base.origin[at]]].append(at)
        homes = Homes()
        for action in made:
            homes.put(calls[action].home, action)
        done = self._checked(rank, actions) if self.is_checked else ()
        tokens = Tokens(self.out, rank, calls, homes, done)
        for home, own in homes.items():
            self.out.hosts.setdefault(rank, {})[home] = len(self.out.lane_rank)
            self.out.open(rank, base.lane_kind[lane])
            tokens.begin(home)
            for action in own:
                if action < 0:
                    tokens.fork(-1 - action)
                else:
                    first = len(self.out.code)
                    tokens.call(action)
                    tokens.turn(action)
                    tokens.made(action)
                    self.out.heads |= dict.fromkeys(range(first, len(self.out.code)), action)
                    is_last = calls[action].is_last
                    (self.out.arrive_only if is_last else self.out.copy_all)(made[action])
                    if action in tokens.ended:
                        self.out.put(tokens.ended[action], ARRIVE)
            tokens.end(home)
            if len(base.lane_soft):
                self.out.lane_soft.append(len(self.out.code))

    def _checked(self, rank: int, actions: Sequence[int]) -> set[tuple[int, int]]:
        """Return waits in other threads for collectives that are checked first, with those.

        A collective blocks its thread until all have passed the check, so a wait behind it there
        has nothing left to say. In another thread it has.
        """
        begin = self.columns.rank_off[rank]
        words = {action: self.columns.op[begin + entry] for entry, action in enumerate(actions)}
        waits = {action for action, word in words.items() if word & KIND_MASK in _WAITS}
        return {
            (action, other)
            for action in waits
            for other in self.calls[rank][action].after
            if words.get(other, 0) & ASYNC
        }


def at_gates(lanes: Any, at: Sequence[int]) -> bool:
    """Tell whether a thread is held back by nothing but the order that was asked.

    Args:
        lanes: The lanes.
        at: The word that each of them stands before.
    """
    return any(_awaited(lanes, lane, place) in lanes.gates for lane, place in enumerate(at))


def threads_left(lanes: Any, at: Sequence[int], rank: int) -> set[Home]:
    """Return the threads of a rank that did not get to their ends."""
    hosts = lanes.hosts.get(rank, {})
    return {home for home, lane in hosts.items() if at[lane] < lanes.lane_off[lane + 1]}


def _awaited(lanes: Any, lane: int, at: int) -> int:
    return int(lanes.code[at] >> 2) if at < lanes.lane_off[lane + 1] else -1


def orders_of(before: Sequence[Collection[int]], queues: Sequence[set[Any]]) -> Iterator[list[int]]:
    """Yield one order of calls per way to order those that share a queue.

    Sleep sets: two orders that differ only in calls without a common queue are one; each way is
    yielded once (Godefroid; every trace exactly once for a fixed order of exploration). A call that
    shares a queue with none that it may change places with is a persistent set of its own: where
    it is free, every way has an order in which it is next, so no other call is tried there.

    Args:
        before: Per call, calls that are made before it.
        queues: Per call, the queues on which it takes a position.
    """
    left = [len(first) for first in map(set, before)]
    followers: list[list[int]] = [[] for _ in before]
    for later, first in enumerate(before):
        for one in set(first):
            followers[one].append(later)
    order: list[int] = []
    free = tuple(call for call, count in enumerate(left) if not count)
    alone = _alone(before, queues)
    # One frame per call that was made: what is free, what sleeps, what was tried.
    frames = [_Frame(free, frozenset(), _tried(free, alone))]
    if not free:
        yield from [] if before else [[]]
        return
    while frames:
        top = frames[-1]
        call = next((one for one in top.left if one not in top.asleep), None)
        if call is None:
            frames.pop()
            if frames:
                _undo(order, left, followers)
                frames[-1].done.add(frames[-1].last)
            continue
        top.last = call
        kept = frozenset(one for one in top.asleep | top.done if not queues[one] & queues[call])
        order.append(call)
        opened = []
        for later in followers[call]:
            left[later] -= 1
            if not left[later]:
                opened.append(later)
        if len(order) == len(before):
            yield list(order)
            _undo(order, left, followers)
            top.done.add(call)
        else:
            free = (*(one for one in top.free if one != call), *opened)
            frames.append(_Frame(free, kept, _tried(free, alone)))


def _tried(free: tuple[int, ...], alone: Collection[int]) -> Iterator[int]:
    """Yield the calls that are tried next where some are free."""
    one = next((call for call in free if call in alone), None)
    return iter(free if one is None else (one,))


def _alone(before: Sequence[Collection[int]], queues: Sequence[set[Any]]) -> frozenset[int]:
    """Return the calls that share no queue with a call that may come before them or after."""
    ordered = [0] * len(before)
    """Per call, bit mask of those that always come before it."""
    for call, first in enumerate(before):  # a call stands behind those that come before it
        for one in first:
            ordered[call] |= ordered[one] | 1 << one
    on: dict[Any, list[int]] = {}
    for call, mine in enumerate(queues):
        for queue in mine:
            on.setdefault(queue, []).append(call)
    shared = set[int]()
    for calls in on.values():
        # Calls of a queue that follow each other are a chain; where they do not, each of those
        # that some other one of them stands beside has a choice.
        if all(ordered[then] >> first & 1 for first, then in itertools.pairwise(calls)):
            continue
        for at, call in enumerate(calls):
            for other in calls[at + 1 :]:
                if not ordered[other] >> call & 1:
                    shared |= {call, other}
    return frozenset(range(len(before))) - shared


def _undo(order: list[int], left: list[int], followers: list[list[int]]) -> None:
    for later in followers[order.pop()]:
        left[later] += 1


@dataclass
class _Frame:
    """One step of the enumeration of orders."""

    free: tuple[int, ...]
    asleep: frozenset[int]
    left: Iterator[int]
    done: set[int] = field(default_factory=set)
    last: int = -1
