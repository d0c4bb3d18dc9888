"""ProcessGroupMPI as lanes: a host and a worker for each group, which take turns at MPI.

The lowered lanes of a plan have one lane per rank, on which a collective arrives where it is called
and a wait waits. Under one lock (ADR 0031) that lane is taken apart:

```
host          [post m]  call(c)  [wait m]  wait c          what stands in brackets holds the lock
worker of A   call(c)>  [c]
worker of B   ...
```

With the order of the brackets of each rank fixed, each waits for the end of the one before it. All
of that are AND-waits, so a run ends in one state (theorem 1).

Where the host has threads, each of them is a lane already, in one order of their calls
(``threads.lanes``), and takes its own turns. A call is made inside of its brackets: what comes
behind it in that order may only go on from there.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from planguard.execution.findings.reason import UndecidedError
from planguard.execution.issued import issued
from planguard.kernels import current
from planguard.kernels.twin_rules import ARRIVE, AWAIT, LaneKind, Why
from planguard.plan.actions import KIND_MASK, MEMBER, NONE, Kind, is_collective, is_point_to_point
from planguard.reordering.lanes import GATE, OwnKernels, OwnLanes, actions_of
from planguard.reordering.rooted import leavers, refuse_batched
from planguard.semantics.model import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from planguard.execution.project import Projection
    from planguard.semantics.model import ExecutionModel


_WAITS = frozenset({Why.WAIT_HANDLE, Why.DEPENDENCY, Why.QUEUE})
"""Why a host waits for a call made before; `QUEUE` where a batch waits for its messages."""


class Turn(NamedTuple):
    """One stay in MPI: the action, what it is for, and which of several of that action."""

    action: int
    what: str
    number: int


class Step(NamedTuple):
    """One step of a lane.

    Attributes:
        what: ``take`` and ``leave`` the lock, ``arrive`` and ``await`` a match, ``call`` another
            lane of the rank and be ``called``.
        match: The match; of a call its number on this rank.
        turn: The stay in MPI to which the step belongs.
        word: Where the lowered lanes have it.
    """

    what: str
    match: int = 0
    turn: Turn | None = None
    word: int = -1


@dataclass(frozen=True)
class Apart:
    """The lanes of one rank: its threads, then its workers, and waits in an open order.

    Attributes:
        rank: The rank.
        lanes: Their steps, the main program first.
        hosts: How many of them are threads of the host.
    """

    rank: int
    lanes: tuple[tuple[Step, ...], ...]
    hosts: int = 1


def apart(base: Any, columns: Any, *, at_once: bool = False) -> list[Apart]:
    """Take the lanes of a plan apart.

    Args:
        base: Its lowered lanes, with origins.
        columns: Its columns.
        at_once: Whether a batch makes its calls in one step, and not one after the other.

    Raises:
        UndecidedError: It does what is not followed here.
    """
    collective = set[int]()
    for at, word in enumerate(base.code):
        if base.why[at] == Why.COLLECTIVE and word & ARRIVE:
            collective.add(word >> 2)
    lanes: dict[int, list[range]] = {rank: [] for rank in range(columns.world_size)}
    for lane, rank in enumerate(base.lane_rank):
        lanes[rank].append(range(base.lane_off[lane], base.lane_off[lane + 1]))
    threads = getattr(base, "hosts", {})
    if any(len(mine) != len(threads.get(rank, [0])) for rank, mine in lanes.items()):
        raise UndecidedError("calls that are neither of the host nor of a worker")
    return [
        _Rank(base, columns, rank, collective, at_once=at_once).apart(mine)
        for rank, mine in lanes.items()
    ]


class _Rank:
    """Takes the lanes of one rank apart."""

    def __init__(
        self, base: Any, columns: Any, rank: int, collective: set[int], *, at_once: bool
    ) -> None:
        self.base, self.columns, self.rank, self.collective = base, columns, rank, collective
        self.at_once = at_once
        self.actions = actions_of(columns, rank)
        self.host: list[Step] = []
        self.workers: dict[int, list[tuple[int, list[Step]]]] = {}
        self.made: list[int] = []
        self.waits: list[list[Step]] = []
        self.numbers: dict[tuple[int, str], int] = {}
        self.calls = 0

    def apart(self, lanes: Sequence[range]) -> Apart:
        hosts: list[list[Step]] = []
        for words in lanes:
            self.host = []
            for _, mine in itertools.groupby(words, self._call_of):
                self._action(list(mine))
            hosts.append(self.host)
        # A worker takes calls in the order in which the threads of the host make them.
        workers = [
            [step for _, steps in sorted(mine, key=lambda one: one[0]) for step in steps]
            for mine in self.workers.values()
        ]
        return Apart(self.rank, tuple(map(tuple, (*hosts, *workers, *self.waits))), len(hosts))

    def _call_of(self, at: int) -> int:
        """Return the action of an instruction; a fork or a join stands alone."""
        if self.base.why[at] == GATE:
            return int(self.base.heads.get(at, -1 - at))
        return self.actions[self.base.origin[at]] if self.base.origin[at] != NONE else -1 - at

    def _action(self, words: list[int]) -> None:
        """Append what one action does, and what it holds up and lets go of other threads."""
        tokens = [at for at in words if self.base.why[at] == GATE]
        several = [at for at in words if self.base.why[at] != GATE]
        waits = [at for at in several if self._is_wait(at)]
        calls = [at for at in several if not self._is_wait(at)]
        if several != [*calls, *waits]:
            raise UndecidedError("calls between the waits of one action")
        if tokens and len(calls) > 1:
            raise UndecidedError("a batch between whose calls another thread may make its own")
        self._tokens([at for at in tokens if not calls or self._is_wait(at)])
        self.made = [at for at in tokens if calls and not self._is_wait(at)]
        if self.at_once and len(calls) > 1:
            self._together(calls)
        else:
            for number, at in enumerate(calls):
                self._word(at, number)
        if len(waits) > 1:
            self._several(waits)
        elif waits:
            self._word(waits[0])

    def _tokens(self, words: Iterable[int]) -> None:
        for at in words:
            what = "await" if self._is_wait(at) else "arrive"
            self.host.append(Step(what, self.base.code[at] >> 2, word=at))

    def _is_made(self) -> None:
        """Let go what comes behind the call that is made here."""
        made, self.made = self.made, []
        self._tokens(made)

    def _is_wait(self, at: int) -> bool:
        word: int = self.base.code[at]
        return word & (ARRIVE | AWAIT) == AWAIT

    def _together(self, words: list[int]) -> None:
        """Make the calls of a batch in one stay in MPI, if one of them is a message."""
        host, self.host = self.host, []
        for number, at in enumerate(words):
            self._word(at, number)
        own = [step for step in self.host if step.what not in {"take", "leave"}]
        turn = next((step.turn for step in own if step.turn), None)
        if turn is not None:
            take = Step("take", turn=turn, word=words[0])
            own = [take, *(one._replace(turn=one.turn and turn) for one in own)]
            own.append(take._replace(what="leave"))
        self.host = [*host, *own]

    def _several(self, words: list[int]) -> None:
        """Wait for several handles: which of them first, the plan does not say."""
        host, ends = self.host, []
        for at in words:
            self.host = []
            self._word(at)
            begin, end = self._call(at), self._call(at)
            host.append(begin)
            self.waits.append([begin._replace(what="called"), *self.host, end])
            ends.append(end._replace(what="called"))
        self.host = [*host, *ends]

    def _call(self, at: int) -> Step:
        self.calls += 1
        return Step("call", self.calls, word=at)

    def _turn(self, at: int, what: str) -> Turn:
        action = self.actions[self.base.origin[at]]
        number = self.numbers.get((action, what), 0)
        self.numbers[action, what] = number + 1
        return Turn(action, what, number)

    def _stay(self, lane: list[Step], at: int, turn: Turn, *does: str) -> None:
        match = self.base.code[at] >> 2
        lane.append(Step("take", turn=turn, word=at))
        lane += [Step(what, match, turn, at) for what in does]
        lane.append(Step("leave", turn=turn, word=at))

    def _word(self, at: int, number: int = 0) -> None:
        base = self.base
        word, why, match = base.code[at], base.why[at], base.code[at] >> 2
        if match >= base.ext_base or base.origin[at] == NONE:
            raise UndecidedError("a creation beside collectives in flight")
        if why in {Why.SEND, Why.RECV} and word & ARRIVE:
            self._stay(self.host, at, self._turn(at, "post"), "arrive")
            self._is_made()
            if word & AWAIT:
                self._stay(self.host, at, self._turn(at, "wait"), "await")
        elif why == Why.COLLECTIVE and word & ARRIVE:
            call = self._call(at)
            self.host.append(call)
            self._is_made()
            work = [call._replace(what="called")]
            self._stay(work, at, self._turn(at, "work"), "arrive", "await")
            worker = self.workers.setdefault(self._group(at, number), [])
            worker.append((base.origin[at], work))
            if word & AWAIT:
                self.host.append(Step("await", match, word=at))
        elif why in _WAITS and word & AWAIT and not word & ARRIVE:
            if match in self.collective:
                self.host.append(Step("await", match, word=at))
            else:
                self._stay(self.host, at, self._turn(at, "wait"), "await")
        else:
            raise UndecidedError("calls that wait for more than their own match")

    def _group(self, at: int, number: int) -> int:
        """Return the group of a collective, by its number among the calls of its action."""
        columns = self.columns
        entry = columns.rank_off[self.rank] + self.base.origin[at]
        call = _calls(columns, entry)[number]
        if not is_collective(columns.op[call] & KIND_MASK):
            raise UndecidedError("a batch in which a call is of two steps")
        return int(columns.slot_ginst[columns.arg[call]])


def _calls(columns: Any, entry: int) -> range:
    if columns.op[entry] & KIND_MASK == Kind.BATCH:
        return range(entry + 1, entry + 1 + columns.arg[entry])
    return range(entry, entry + 1)


def early(
    plan: Any, columns: Any, base: Any, model: ExecutionModel, limit: int
) -> dict[tuple[int, int], int | None]:
    """Return rank and match of the calls that may finish before all are there, and who has to be.

    Sends finish with nobody there. A call of a rooted collective is left as ``rooted`` says: with
    nobody there, or with the root.

    Raises:
        UndecidedError: One of them is a member of a batch.
    """
    left = leavers(plan, columns, model, limit)
    refuse_batched(columns, left)
    sizes = plan.code.sig_bytes
    found: dict[tuple[int, int], int | None] = {}
    posted: dict[tuple[int, int], list[int]] = {}
    for lane, rank in enumerate(base.lane_rank):
        for at in range(base.lane_off[lane], base.lane_off[lane + 1]):
            if not base.code[at] & ARRIVE:
                continue
            if base.why[at] in {Why.SEND, Why.RECV}:
                posted.setdefault((rank, base.origin[at]), []).append(base.code[at] >> 2)
            elif (rank, base.origin[at]) in left:
                found[rank, base.code[at] >> 2] = left[rank, base.origin[at]]
    for rank in range(columns.world_size):
        begin = columns.rank_off[rank]
        for at in issued(columns, rank):
            kind = columns.op[at] & KIND_MASK
            if columns.op[at] & MEMBER or not _is_call(kind):
                continue
            calls = list(_calls(columns, at))
            small = [sizes[columns.sig[one]] <= limit or sizes[columns.sig[one]] == UNLIMITED
                     for one in calls]  # fmt: skip
            kinds = [columns.op[one] & KIND_MASK for one in calls]
            messages = [one for one in range(len(calls)) if is_point_to_point(kinds[one])]
            for one, match in zip(messages, posted.get((rank, at - begin), []), strict=True):
                if small[one] and kinds[one] == Kind.SEND:
                    found[rank, match] = None
    return found


def _is_call(kind: int) -> bool:
    return kind == Kind.BATCH or is_collective(kind) or is_point_to_point(kind)


@dataclass(frozen=True)
class TurnKernels(OwnKernels):
    """Kernels that run hosts and workers as lanes of their own, in a given order of turns.

    Attributes:
        turns: Per rank, who holds the lock one after the other; all others come behind them.
        early: Per rank, the waits that end with nobody there.
        at_once: Whether a batch makes its calls in one step.
        base: Kernels of the threads of the hosts; those in use where None.
    """

    turns: Sequence[Sequence[Turn]]
    early: Sequence[frozenset[Turn]]
    at_once: bool = False
    base: Any = None

    def lower(self, columns: Any, *rest: Any) -> Any:
        """Lower a plan and take its lanes apart; origins are always kept."""
        *tables, _, forced = rest
        base = (self.base or current()).lower(columns, *tables, True, forced)
        return (
            base if base.overflow else self._lanes(base, apart(base, columns, at_once=self.at_once))
        )

    def projected(self, projection: Projection) -> TurnKernels:
        """Return the kernels of a plan cut down to some of its actions."""
        kept = [
            {action: number for number, action in enumerate(actions)}
            for actions in projection.actions
        ]

        def moved(number: int, turns: Any) -> Iterator[Turn]:
            rank, place = projection.ranks[number], kept[number]
            for turn in turns[rank]:
                if turn.action in place:
                    yield turn._replace(action=place[turn.action])

        ranks = range(len(projection.ranks))
        return TurnKernels(
            [tuple(moved(number, self.turns)) for number in ranks],
            [frozenset(moved(number, self.early)) for number in ranks],
            self.at_once,
            self.base and self.base.projected(projection),
        )

    def _lanes(self, base: Any, ranks: Sequence[Apart]) -> OwnLanes:
        out = OwnLanes(base)
        out.need.extend(base.need)
        for one in ranks:
            self._rank(out, one)
        out.lane_off.append(len(out.code))
        return out

    def _rank(self, out: OwnLanes, one: Apart) -> None:
        there = {step.turn for lane in one.lanes for step in lane}
        order = [turn for turn in self.turns[one.rank] if turn in there]
        free = {turn: out.token(one.rank, 1) for turn in order}
        behind = dict(zip(order[1:], order, strict=False))
        calls = {
            step.match: out.token(one.rank, 1) for lane in one.lanes for step in lane
            if step.what == "call"
        }  # fmt: skip
        early = self.early[one.rank]
        left = {
            step.match: out.token(one.rank, 1) for lane in one.lanes for step in lane
            if step.what == "await" and step.turn in early and step.turn.what == "work"
        }  # fmt: skip
        for number, lane in enumerate(one.lanes):
            out.open(one.rank, LaneKind.PROGRAM if number < one.hosts else LaneKind.QUEUE)
            for step in lane:
                entry, why = out.base.origin[step.word], out.base.why[step.word]
                if step.what == "arrive":
                    out.put(step.match, ARRIVE, entry, why)
                elif step.what == "await" and step.match in left:  # the host waits for the worker
                    out.put(left[step.match], AWAIT if step.turn is None else ARRIVE, entry, why)
                elif step.what == "await" and step.turn not in early:
                    out.put(step.match, AWAIT, entry, why)
                elif step.what == "call":
                    out.put(calls[step.match], ARRIVE)
                elif step.what == "called":
                    out.put(calls[step.match], AWAIT)
                elif step.what == "leave" and step.turn in free:
                    out.put(free[step.turn], ARRIVE)
                elif step.what == "take" and order and step.turn != order[0]:
                    first = behind[step.turn] if step.turn in behind else order[-1]
                    out.put(free[first], AWAIT)
