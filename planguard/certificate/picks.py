"""Check that a plan completes whatever is picked while it runs: standard library only, no engine.

Some plans have no one execution: a receive takes the message of whoever comes first, host threads
call in any order, a probe looks for what is there. A certificate of kind ``picks`` lists how each
execution ends, by the picks that lead there. This file runs the plan itself, with the rules of
``checker.py``, follows every pick, and accepts if every end is complete and the list is right:
docs/reference/certificates.md. Bounded: ``STATES`` states, ``WORK`` calls.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from planguard.certificate.agreement import (
    Call,
    OutsideError,
    RejectedError,
    agree,
    calls_of,
    extent,
)
from planguard.certificate.checker import GLOO, MPI, PAIR, SENDS, _Match, _Op, _Rank, opened
from planguard.certificate.threads import Gate, Pick, Thread, Threads, is_started

if TYPE_CHECKING:
    from collections.abc import Iterator

STATES, WORK = 20_000, 2_000_000
"""Most states that are visited, and most calls that are looked at on the way to them."""
EAGER_BYTES = 4096
"""Least bound up to which sends may finish early where a model lets small ones: its default."""
EAGER, LEAVES = {"mpi-eager", "mpi-pg"}, {"broadcast", "reduce", "gather", "scatter"}
Key = tuple[int, int, int | None]


class Run(Threads):
    """An execution that stands still where something has to be picked.

    Args:
        flat: The flat plan.
        model: A model in which a call blocks its host.
        eager: Bytes up to which a send may finish early.
    """

    def __init__(self, flat: Call, model: str, eager: int) -> None:
        self.model, self.eager = model, eager if model in EAGER else -1
        self.posted = defaultdict[Any, list[Key]](list)
        self.contested, self.calls = set[tuple[Any, Any]](), list[Call]()
        self.members = {name: len(one["ranks"]) for name, one in flat.get("groups", {}).items()}
        self.members["world"] = len(flat["ranks"])
        for rank, use in flat["ranks"].items():
            mine = list(calls_of(use["actions"]))
            self.calls += mine
            for call in mine:
                if call["op"] == "probe" or "any" in {call.get("peer"), call.get("tag")}:
                    self.contested.add((call.get("group", "world"), int(rank)))
        looks = any(call["op"] == "probe" for call in self.calls)
        if model not in GLOO | MPI | {"mpi-pg"}:
            raise OutsideError(f"picks under {model}, where hosts do not block")
        if self.contested:  # that a probe sees a message is undone by a receive of another thread
            self._open({"new_group", "threads"} if looks else {"new_group"})
        super().__init__(flat, model)

    def races(self) -> None:
        """Refuse what is not followed beside threads that race for a place."""
        self._open(set())

    def _open(self, refused: set[str]) -> None:
        """Refuse what has executions that make more progress than those that are followed."""
        for call in self.calls:
            size, name = extent(call)[0] if call["op"] in LEAVES else None, call["op"]
            # Of a large one no member but the root needs more than one other.
            is_few = self.members.get(call.get("group", "world"), 3) <= 2
            is_small = size is None or size <= self.eager
            is_early = name in LEAVES and (is_small or (self.model in EAGER and not is_few))
            is_late = self.model in GLOO and name == "barrier" and call.get("async")
            is_lost = self.model in GLOO and name in {"drop", "exit"}
            if name in refused or is_early or is_late or is_lost:
                raise OutsideError(f"`{name}` beside what is picked while the plan runs")

    def _identify(self, rank: _Rank, op: _Op, *, in_batch: bool) -> list[Any]:
        """Find the match of a call; where messages compete it has none until it is picked."""
        call, is_send = op.call, op.call["op"] in SENDS
        home = call.get("group", "world"), call.get("peer") if is_send else rank.rank
        if call["op"] not in PAIR or home not in self.contested:
            return super()._identify(rank, op, in_batch=in_batch)
        if call["peer"] == rank.rank or "any" in {home[1], is_send and call.get("tag")}:
            raise OutsideError(f"{rank}: a message to itself, or to anybody")
        op.place, op.match = int(not is_send), _Match(2)
        op.match.ops[op.place] = op
        if is_send and self.model in MPI and call.get("mode") == "buffered":
            op.needs = []
        self.posted[home].append(next(reversed(self.ops)))  # the call that is being issued
        return []

    def _slots(self, rank: _Rank, call: Call) -> Iterator[Any]:
        """Yield queues; where messages compete all sends of a rank are one, and all receives."""
        for part in call["ops"] if call["op"] == "batch" else [call]:
            is_send = part["op"] in SENDS
            home = part.get("group", "world"), part.get("peer") if is_send else rank.rank
            if part["op"] in PAIR and home in self.contested:
                yield *home, is_send
            else:
                yield from super()._slots(rank, part)

    def picks(self) -> tuple[list[Pick], list[Pick]]:
        """Return what can be picked: what has to go on some time, and sends that may end early."""
        gates = [gate for gate in self.gates if not gate.is_done]
        for gate in gates:  # all that race for a place are there: nothing else can interfere
            rivals = [self.ranks[at] for at in self.threads[gate.rank.rank]]
            here = [g for g in gates if (g.rank.rank, g.slot) == (gate.rank.rank, gate.slot)]
            late = [r for r in rivals if isinstance(r, Thread) and r.left[gate.slot] > 0]
            if gate.what == "call" and len(late) == len(here):
                return [one.pick for one in here], []
        found = [g.pick for g in gates if g.what == "call" or self._is_seen(g)]
        for keys in self.posted.values():
            free = {key: self.ops[key] for key in keys if self._is_free(self.ops[key])}
            for key, op in free.items():
                found += [["take", [*key], [*other]] for other in self._offers(op, free)]
        early = [["early", [*key]] for key, op in self.ops.items() if self._may_end_early(op)]
        return found, early

    @staticmethod
    def _is_free(op: _Op) -> bool:
        return len(op.match.ops) == 1 and is_started(op)

    def _offers(self, op: _Op, free: dict[Key, _Op]) -> Iterator[Key]:
        """Yield the messages that a receive may take now: per sender the first that fits."""
        before, seen = list[_Op](), set[int]()
        for one in free.values() if op.place else ():
            if one is op:
                break
            before += [one] if one.place else []
        for key, send in free.items() if op.place else ():
            if send.place or send.rank.rank in seen or not _fits(op.call, send):
                continue
            seen.add(send.rank.rank)
            served = [one for one in before if _fits(one.call, send)]
            if not any(self.model not in GLOO or _wants(one) == _wants(op) for one in served):
                yield key

    def _is_seen(self, gate: Gate) -> bool:
        keys = self.posted[gate.slot.get("group", "world"), gate.rank.rank]
        sends = (self.ops[key] for key in keys if not self.ops[key].place)
        return any(self._is_free(op) and _fits(gate.slot, op) for op in sends)

    def _may_end_early(self, op: _Op) -> bool:
        is_plain = op.call["op"] in SENDS and op.call.get("mode", "standard") == "standard"
        return (
            is_plain
            and not op.is_done
            and is_started(op)
            and (extent(op.call)[0] or 0) <= self.eager
        )

    def apply(self, pick: Pick) -> None:
        """Do what is picked, and whatever follows.

        Raises:
            RejectedError: Two that meet disagree.
        """
        what, place = pick[0], tuple(pick[1])
        if what == "take":
            receive, send = self.ops[place], self.ops[tuple(pick[2])]
            match = self.matches["taken", len(self.matches)] = _Match(2)
            match.ops = {0: send, 1: receive}
            send.match = receive.match = match
            agree([send, receive], 2, self.model)
        elif what == "early":
            self.ops[place].needs = []
        else:
            gate = next(g for g in self.gates if not g.is_done and g.pick == pick)
            gate.is_done = True
            self.todo.append(gate.rank.rank)
            self._resume()
        self.settle()

    def state(self) -> Any:
        """Return what the rest of the execution depends on."""
        done = frozenset(key for key, op in self.ops.items() if op.is_done)
        met = frozenset(key for key, op in self.ops.items() if len(op.match.ops) > 1)
        hosts = tuple((host.at, host.blockers is None) for host in self.ranks)
        raced = frozenset((slot, tuple(places)) for slot, places in self.history.items())
        return frozenset(self.ops), done, met, hosts, raced


def _wants(op: _Op) -> tuple[Any, Any]:
    return op.call["peer"], op.call.get("tag", 0)


def _fits(call: Call, send: _Op) -> bool:
    """Tell whether a receive or a probe may be about a message."""
    is_tag = call.get("tag", 0) in {"any", send.call.get("tag", 0)}
    return is_tag and call["peer"] in {"any", send.rank.rank}


def explore(flat: Call, model: str, eager: int) -> list[list[Pick]]:
    """Return the picks that lead to every end of an execution.

    Args:
        flat: A flat plan without branches, fused buffers and open order.
        model: The execution model.
        eager: Bytes up to which a send may finish early, where the model has such sends.

    Raises:
        RejectedError: Some end is not complete, or two that meet disagree.
        OutsideError: Something is not covered, or there are too many states.
    """
    todo, seen, ends, work = [list[Pick]()], set[Any](), list[list[Pick]](), 0
    while todo:
        path = todo.pop()
        run = Run(flat, model, eager)
        run.settle()
        for pick in path:
            run.apply(pick)
        work += len(run.ops) * (1 + len(path))
        if len(seen) > STATES or work > WORK:
            raise OutsideError(f"more than {STATES:,} states, or {WORK:,} calls on the way")
        state = run.state()
        if state in seen:
            continue
        seen.add(state)
        found, early = run.picks()
        if not found:
            run.finish()
            ends.append(path)
            continue
        todo += [[*path, pick] for pick in (*early[::-1], *found[::-1])]
    return ends


def check(text: bytes, certificate: bytes) -> str:
    """Return what a certificate over all picks proves of the text of a flat plan.

    Raises:
        RejectedError: It proves nothing; the message says why.
    """
    flat, proof = opened(text, certificate, "picks")
    model = proof["model"]
    eager = proof["eager_bytes"]
    if type(eager) is not int or eager < (EAGER_BYTES if model in EAGER else 0):
        raise RejectedError(f"sends of at most {eager} bytes finish early, fewer than may")
    ends = explore(flat, model, eager)
    if proof["endings"] != ends:
        raise RejectedError(f"the plan has other ends than those: {len(ends)}")
    early = f", sends of up to {eager} bytes early or not" if model in EAGER else ""
    return f"{len(flat['ranks'])} ranks complete under {model} in every end: {len(ends)}{early}"
