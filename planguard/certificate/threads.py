"""Host threads, and where a host stands until something is picked: standard library only.

The execution of ``checker.py`` with a host for every thread. A thread blocks alone and shares all
else with its rank. Where two threads of a rank make calls that take places in one queue, each call
stands at a gate until it is picked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from planguard.certificate.agreement import Call, OutsideError, calls_of
from planguard.certificate.checker import MPI, PAIR, ROUND, SENDS, Plan, _Op, _Rank
from planguard.certificate.numbers import fixed_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADED = PAIR | ROUND | {"batch", "wait", "test", "compute", "host_sync", "h2d", "d2h", "d2d"}
Pick = list[Any]
"""What is picked: ``take`` and two places, or ``early``, ``call``, ``look`` and one."""


class Gate:
    """Where a host stands until it is picked: a call that races, or a probe."""

    def __init__(self, rank: _Rank, what: str, slot: Any) -> None:
        self.rank, self.what, self.slot, self.is_done = rank, what, slot, False
        self.pick: Pick = [what, [rank.rank, rank.at]]


class _First:  # a wait for any or some: it passes when one of the handles is complete
    def __init__(self, works: list[list[_Op]]) -> None:
        self.works = works

    @property
    def is_done(self) -> bool:
        return any(all(op.is_done for op in ops) for ops in self.works)


class Thread(_Rank):
    """A host thread: it blocks alone, and shares everything else with its rank."""

    def __init__(self, main: _Rank, at: int) -> None:
        super().__init__(main.rank, main.head)
        self.at, self.launches, self.earlier = at, main.launches, main.earlier
        self.comms, self.counts = main.comms, main.counts
        self.handles, self.ids = main.handles, main.ids
        self.left, self.shared = Counter[Any](), set[Any]()
        self.twins = set[Any]()

    @property
    def is_done(self) -> bool:
        """Whether it came to its end."""
        return self.blockers is None


class Threads(Plan):
    """An execution in which threads go on by themselves, and gates hold up what races."""

    def __init__(self, flat: Call, model: str) -> None:
        self.threads, self.gates = defaultdict[int, list[int]](list), list[Gate]()
        self.history = defaultdict[Any, list[int]](list)
        for use in flat["ranks"].values():
            fixed_numbers(use["actions"], model)
        super().__init__(flat, model)

    def races(self) -> None:
        """Refuse what is not followed beside threads that race for a place."""

    def _run(self, rank: _Rank, actions: list[Call]) -> Iterator[list[Any]]:
        """Do what a host does; threads and waits for one of several too."""
        for action in actions:
            if action["op"] == "threads":
                yield self._fork(rank, action["threads"])
                rank.at += sum(map(len, action["threads"]))
                continue
            if action["op"] == "probe" and self.model in MPI:
                yield [self._gate(rank, "look", action)]
            elif action["op"] == "wait" and is_first(action):
                yield [_First([rank.handles[work] for work in action["work"]])]
            else:
                rank.begin = rank.at
                yield from super()._run(rank, [action])
            if action["op"] == "exit":
                return
            rank.at += 1

    def _gate(self, rank: _Rank, what: str, slot: Any) -> Gate:
        self.gates.append(Gate(rank, what, slot))
        return self.gates[-1]

    def _fork(self, rank: _Rank, bodies: list[list[Call]]) -> list[Any]:
        """Start the threads of a block; return them, since the host waits for all."""
        found, at = list[Thread](), rank.at
        for body in bodies:
            if not {call["op"] for call in body} <= THREADED or isinstance(rank, Thread):
                raise OutsideError(f"{rank}: a thread with something that only a host does")
            found.append(Thread(rank, at))
            at += len(body)
            found[-1].left.update(slot for call in body for slot in self._slots(rank, call))
            self.threads[rank.rank].append(len(self.ranks))
            self.ranks.append(found[-1])
            self.hosts.append(self._run(found[-1], body))
        names = Counter(name for body in bodies for name in names_of(body))
        if max(names.values(), default=0) > 1:
            raise OutsideError(f"{rank}: threads that share a handle or an id")
        for one in found:
            one.shared = {s for s in one.left for o in found if o is not one and s in o.left}
            if one.shared:
                self.races()
        for one, body in zip(found, bodies, strict=True):
            others = [call for other in bodies if other is not body for call in calls_of(other)]
            one.twins = {_place(rank, call) for call in others if call["op"] in PAIR} - {None}
        self.todo.append(rank.rank)
        return list(found)

    def _slots(self, rank: _Rank, call: Call) -> Iterator[Any]:
        """Yield the queues in which a call takes the next place."""
        for part in call["ops"] if call["op"] == "batch" else [call]:
            comm = rank.comms.get(part.get("group", "world"), part.get("group", "world"))
            if part["op"] in PAIR:
                yield comm, part["op"] in SENDS, part["peer"], part.get("tag", 0)
            elif part["op"] in ROUND:
                yield (comm,)

    def _communicate(self, rank: _Rank, action: Call, ops: list[_Op]) -> Iterator[list[Any]]:
        """Issue a call; where it races with another thread, when it is picked."""
        if isinstance(rank, Thread):
            slots = list(self._slots(rank, action))
            if rank.shared.intersection(slots):
                part = action["ops"][0] if action["op"] == "batch" else action
                may_swap = part["op"] not in PAIR or _place(rank, part) in rank.twins
                if len(slots) > 1 or ("label" not in part and may_swap):
                    raise OutsideError(f"{rank}: a batch or no label, where threads race")
                yield [self._gate(rank, "call", slots[0])]
                self.history[rank.rank, slots[0]].append(rank.at)
            rank.left.subtract(slots)
        yield from super()._communicate(rank, action, ops)

    def _resume(self) -> None:
        while self.todo:
            number = self.todo.pop()
            for at in (number, *self.threads[number]):
                host, was_done = self.ranks[at], self.ranks[at].blockers is None
                while host.blockers is not None:
                    while host.blockers and host.blockers[-1].is_done:
                        host.blockers.pop()
                    if host.blockers:
                        break
                    host.blockers = next(self.hosts[at], None)
                if at != number and host.blockers is None and not was_done:
                    self.todo.append(number)

    def _is_ready(self, op: _Op) -> bool:
        everybody = range(0 if op.match.is_done else op.match.size)
        for place in (op.place, *(everybody if op.needs is None else op.needs)):
            other = op.match.ops.get(place)
            if not other or not is_started(other) or other.is_hidden > (other is op):
                return False
        return True

    def settle(self) -> None:
        """Complete whatever can complete without a pick: it only ever enables more."""
        ready = True
        while ready:
            ready = False
            for op in [op for op in self.ops.values() if not op.is_done]:
                if self._is_ready(op):
                    self.complete(op)
                    ready = True


def _place(rank: _Rank, call: Call) -> Any:
    """Return where a message may be taken for another one; None of a receive from anybody.

    Any message will do for that one, as it does where one thread makes all the calls.
    """
    comm = rank.comms.get(call.get("group", "world"), call.get("group", "world"))
    return None if call["peer"] == "any" else (comm, call["op"] in SENDS, call["peer"])


def names_of(body: list[Call]) -> set[Any]:
    """Return the handles and ids that a thread speaks of: `after` is a wait for another one too."""
    found = set[Any]()
    for call in calls_of(body):
        works = call.get("work", [])
        found |= {("work", work) for work in ([works] if isinstance(works, str) else works)}
        named = [*call.get("deps", []), *call.get("after", []), call.get("id")]
        found |= {("id", name) for name in named if name}
    return found


def is_first(action: Call) -> bool:
    """Tell whether a wait is for any or some of several handles."""
    several = isinstance(action["work"], list) and len(action["work"]) > 1
    return several and action.get("mode", "all") != "all"


def is_started(op: _Op) -> bool:
    """Tell whether a call was issued and, in a queue, everything ahead of it is complete."""
    return op.launch <= op.rank.head
