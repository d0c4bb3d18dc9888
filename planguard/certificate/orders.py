"""Check a certificate of SAFE over all admissible orders: standard library only, no engine.

A certificate of kind ``orders`` is about a flat plan with ``unordered`` blocks. It holds an order
of completion of the plan in one order, which ``checker.py`` follows, and the waits of all ranks in
an order in which no execution of any order can stay at them. This file reads from the plan what may
come before what, and asks of each wait that whatever it needs arrives, whichever order the other
ranks pick, once nobody stays at the waits listed before: docs/reference/certificates.md. Linear.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from planguard.certificate import refutation
from planguard.certificate.agreement import Call, OutsideError, RejectedError
from planguard.certificate.blocks import COMMUNICATION, Block, as_chains
from planguard.certificate.checker import (
    DEVICE,
    ROUND,
    Plan,
    _Match,
    _Op,
    _Rank,
    opened,
)
from planguard.certificate.numbers import fixed_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Reading(Plan):
    """The plan in one order; remembers what every action waited for."""

    def __init__(self, flat: Call, model: str) -> None:
        self.waits = defaultdict[tuple[int, int], list[list[Any]]](list)
        super().__init__(flat, model)

    def _run(self, rank: _Rank, actions: list[Call]) -> Iterator[list[Any]]:
        for blockers in super()._run(rank, actions):
            self.waits[rank.rank, rank.at].append(list(blockers))
            yield blockers

    def _has_own(self, name: str, *, in_batch: bool) -> bool:
        """Whether the rules of open order hold of a message to oneself: who is late is itself."""
        return False


class Orders:
    """A flat plan with open order under one model.

    What blocks an action are its *stages*, one after the other. On a device and where a process has
    one queue, every launch is a stage: the host is read as waiting for it, which asks for more.
    """

    def __init__(self, flat: Call, model: str) -> None:
        size, self.model = flat["world_size"], model
        for use in flat["ranks"].values():
            fixed_numbers(use["actions"], model)
        self.blocks = [self._take_apart(flat["ranks"][str(rank)]) for rank in range(size)]
        self.numbers = [[b.begin + at for b in mine for at in b.order] for mine in self.blocks]
        self.places = [{n: at for at, n in enumerate(numbers)} for numbers in self.numbers]
        self.home = [[at for at, b in enumerate(mine) for _ in b.calls] for mine in self.blocks]
        programs = [[b.calls[at] for b in mine for at in b.order] for mine in self.blocks]
        bare = [[{k: c[k] for k in c if k != "after"} for c in calls] for calls in programs]
        ranks = {str(rank): {"actions": actions} for rank, actions in enumerate(bare)}
        self.fixed: Call = {**flat, "ranks": ranks}
        self.stages = defaultdict[tuple[int, int], list[list[Any]]](list)
        self.settled = defaultdict[tuple[int, int], int](int)
        self.arrival = dict[_Op, tuple[int, int, int]]()
        self.meeting = defaultdict[_Match, dict[int, list[tuple[int, int, int]]]](dict)

    def _take_apart(self, use: Call) -> list[Block]:
        blocks, begin = list[Block](), 0
        for action in as_chains(use["actions"]):
            blocks.append(Block(begin, action))
            begin += len(blocks[-1].calls)
        return blocks

    def follow(self, order: list[Any]) -> None:
        """Complete one order of the plan; then read the stages of every action from it."""
        self.reading = _Reading(self.fixed, self.model)
        for rank, action, *member in order:
            at = self.places[rank].get(action) if 0 <= rank < len(self.places) else None
            op = self.reading.ops.get((rank, at, *member, None)[:3])
            if op is None:
                raise RejectedError(f"{[rank, action, *member]}: its host is not there yet")
            self.reading.complete(op)
        self.reading.finish()
        self._check_rounds()
        for (rank, at), waits in self.reading.waits.items():
            self._read(rank, at, waits)
        self.open = [[0] * len(mine) for mine in self.blocks]
        self.front = [0] * len(self.blocks)
        for rank, action in self.stages:
            block = self.blocks[rank][self.home[rank][action]]
            self.open[rank][self.home[rank][action]] |= 1 << action - block.begin
        for rank in range(len(self.blocks)):
            self._advance(rank)

    def _check_rounds(self) -> None:
        """Reject if a rank may change the order on a communicator or channel (T1)."""
        queues = defaultdict[Any, list[_Op]](list)
        for (*slot, _), match in sorted(self.reading.matches.items(), key=lambda item: item[0][-1]):
            for place, op in match.ops.items():
                queues[op.rank.rank, *slot, place].append(op)
        for (rank, *_), ops in queues.items():
            for first, second in pairwise(ops):
                if not self._comes_before(rank, first.action, second.action):
                    raise RejectedError(f"{first} and {second} may change places")

    def _comes_before(self, rank: int, first: int, second: int) -> bool:
        """Whether one place of the fixed order is before another, or the same, in every order."""
        one, other = self.numbers[rank][first], self.numbers[rank][second]
        home = self.home[rank][one]
        block = self.blocks[rank][home]
        if one == other or home != self.home[rank][other]:
            return one == other or home < self.home[rank][other]
        return bool(block.above[one - block.begin] >> other - block.begin & 1)

    def _read(self, rank: int, at: int, waits: list[list[Any]]) -> None:
        """Note the stages of an action, and after how many of them its calls are issued."""
        ops, number = list[_Op](), self.numbers[rank][at]
        call = self.fixed["ranks"][str(rank)]["actions"][at]
        if call["op"] in COMMUNICATION:
            members: Any = range(len(waits) - 1) if call["op"] == "batch" else [None]
            ops = [self.reading.ops[rank, at, member] for member in members]
        for op, blockers in zip(ops, waits, strict=False):
            self._stage(rank, number, blockers)
            self.arrival[op] = rank, number, len(self.stages.get((rank, number), ()))
        rest = waits[len(ops) :]
        if self.model in DEVICE and len({op.call.get("group", "world") for op in ops}) > 1:
            raise OutsideError(f"{ops[0]}: a batch over several communicators in open order")
        if self.model in DEVICE and ops:  # one launch; the host is read as waiting for it
            depth = len(self.stages.get((rank, number), ()))
            self.arrival |= dict.fromkeys(ops, (rank, number, depth))
            rest = [ops]
        elif self.model in DEVICE:  # what was launched earlier is complete
            rest = [[one for one in blockers if isinstance(one, _Match)] for blockers in rest]
        for blockers in rest:
            self._stage(rank, number, blockers)

    def _stage(self, rank: int, number: int, blockers: list[Any]) -> None:
        for blocker in blockers:
            if isinstance(blocker, _Match):
                depth = len(self.stages.get((rank, number), ()))
                self.meeting[blocker].setdefault(rank, []).append((rank, number, depth))
            elif not self._comes_before(rank, blocker.action, self.places[rank][number]):
                raise OutsideError(f"{blocker}: whether it is waited for depends on the order")
        if blockers:
            self.stages[rank, number].append(blockers)

    def _advance(self, rank: int) -> None:
        mine = self.open[rank]
        while self.front[rank] < len(mine) and not mine[self.front[rank]]:
            self.front[rank] += 1

    def blocker(self, rank: int, number: int, depth: int) -> tuple[int, int] | None:
        """Return an open wait that may keep a rank from a stage of an action, if there is one."""
        home = self.home[rank][number]
        at, mask = min(home, self.front[rank]), 0
        block = self.blocks[rank][at]
        if at < home:
            mask = self.open[rank][at]
        elif at == home:
            own = number - block.begin
            mask = self.open[rank][at] & ~block.above[own] & ~(1 << own)
            mask |= (self.settled[rank, number] < depth) << own
        return (rank, block.begin + (mask & -mask).bit_length() - 1) if mask else None

    def missing(self, rank: int, number: int) -> tuple[str, tuple[int, int] | None]:
        """Return what may never arrive at the next stage of an action, and an open wait before it.

        Empty if it arrives in every order once nobody stays at the settled waits.
        """
        for blocker in self.stages[rank, number][self.settled[rank, number]]:
            for other, uses in self.needed(rank, blocker):
                found = [self.blocker(*use) for use in uses]
                if not found or None not in found:
                    return other, found[0] if found else None
        return "", None

    def needed(self, rank: int, blocker: Any) -> Iterator[tuple[str, list[tuple[int, int, int]]]]:
        """Yield whom something waits for, and the places where they would arrive."""
        match = blocker if isinstance(blocker, _Match) else blocker.match
        if match is blocker:
            for member in match.ops:
                if member != rank:
                    yield f"rank {member}", self.meeting[match].get(member, [])
            return
        if self.model == "gloo-detail" and blocker.call["op"] in ROUND - {"barrier"}:
            return  # the hosts have met, and nothing holds them up before they issue it
        for place in range(match.size) if blocker.needs is None else blocker.needs:
            other = match.ops.get(place)
            if other is None or other.is_hidden:
                yield f"{other or f'member {place}'}", []
            elif other is not blocker:
                yield str(other), [self.arrival[other]]

    def settle(self, rank: int, number: int) -> None:
        """Take the next stage of an action for one at which nobody stays.

        Raises:
            RejectedError: Something that it waits for may never arrive.
        """
        if self.settled[rank, number] >= len(self.stages.get((rank, number), ())):
            raise RejectedError(f"{[rank, number]} waits for nothing more")
        missing, _ = self.missing(rank, number)
        if missing:
            raise RejectedError(f"rank {rank}, action {number}: {missing} may never arrive")
        self.settled[rank, number] += 1
        if self.settled[rank, number] == len(self.stages[rank, number]):
            home = self.home[rank][number]
            self.open[rank][home] &= ~(1 << number - self.blocks[rank][home].begin)
            self._advance(rank)


def check(text: bytes, certificate: bytes) -> str:
    """Return what a certificate over all orders proves of the text of a flat plan.

    Raises:
        RejectedError: It proves nothing; the message says why.
    """
    flat, proof = opened(text, certificate, "orders")
    model = proof["model"]
    orders = Orders(flat, model)
    orders.follow(proof["order"])
    for rank, number in proof["settled"]:
        orders.settle(rank, number)
    for rank, mine in enumerate(orders.blocks):
        if orders.front[rank] < len(mine) and "refuted" not in proof:
            begin = mine[orders.front[rank]].begin
            raise RejectedError(f"rank {rank}: some order may stay at or after action {begin}")
    if "refuted" in proof:
        refutation.check(orders, proof["refuted"])
    calls = len(orders.reading.ops)
    return f"{len(orders.blocks)} ranks, {calls} operations complete under {model} in every order"
