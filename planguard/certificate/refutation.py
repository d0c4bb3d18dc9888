"""That no order follows the circles of waits: a formula read from the plan, and its refutation.

Where the waits of a plan with open order cannot all be settled one after the other, those that are
left may wait for each other in a circle. Some order gets stuck only if a set of them holds such
that

* no rank stands at two of them;
* each has somebody to wait for: a rank that stands at one of them, which may come before an
  arrival that it needs.

Those are the clauses, one boolean per wait that is left, made here from the flat plan. A
certificate refutes them by clauses each of which follows by unit propagation from those before
(RUP: Goldberg and Novikov, DATE 2003), the last of which is empty. Standard library only.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from planguard.certificate.agreement import RejectedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.certificate.orders import Orders

    Stand = tuple[int, int, int]

MAX_LITERALS = 2_000_000


def formula(orders: Orders) -> tuple[int, list[list[int]]]:
    """Return the number of variables and the clauses of "some order gets stuck".

    Args:
        orders: A plan after one order was followed and what can be settled was.

    Raises:
        RejectedError: The formula is too large.
    """
    stands = sorted(
        (rank, number, depth)
        for (rank, number), stages in orders.stages.items()
        for depth in range(orders.settled[rank, number], len(stages))
    )
    variable = {stand: at for at, stand in enumerate(stands, 1)}
    clauses, literals = [list(variable.values())], 0
    for stand in stands:
        late = _late(orders, stand)
        if late is not None:
            clauses.append([-variable[stand], *sorted({variable[one] for one in late})])
            literals += len(clauses[-1])
        if literals > MAX_LITERALS:
            raise RejectedError(f"the circles of waits take more than {MAX_LITERALS} literals")
    by_rank: dict[int, list[int]] = {}
    for rank, *_ in stands:
        by_rank.setdefault(rank, []).append(len(by_rank.get(rank, ())))
    begin = 1
    for places in by_rank.values():
        numbers = range(begin, begin + len(places))
        clauses += [[-one, -other] for one, other in combinations(numbers, 2)]
        begin += len(places)
        if len(clauses) > MAX_LITERALS:
            raise RejectedError(f"the circles of waits take more than {MAX_LITERALS} clauses")
    return len(stands), clauses


def _late(orders: Orders, stand: Stand) -> set[Stand] | None:
    """Return the waits that may keep one at its place; None: it may stay in any case."""
    rank, number, depth = stand
    found = set[tuple[int, int, int]]()
    for blocker in orders.stages[rank, number][depth]:
        for _, uses in orders.needed(rank, blocker):
            if not uses:
                return None
            for use in uses:
                found.update(_before(orders, *use))
    return found


def _before(orders: Orders, rank: int, number: int, depth: int) -> Iterator[Stand]:
    """Yield the open waits of a rank that may come before a stage of an action."""
    home = orders.home[rank][number]
    for at in range(orders.front[rank], home + 1):
        block, mask = orders.blocks[rank][at], orders.open[rank][at]
        own = number - block.begin
        if at == home:
            mask &= ~block.above[own] & ~(1 << own)
        while mask:
            other = block.begin + (mask & -mask).bit_length() - 1
            mask &= mask - 1
            for stage in range(orders.settled[rank, other], len(orders.stages[rank, other])):
                yield rank, other, stage
    for stage in range(orders.settled[rank, number], depth):
        yield rank, number, stage


class Clauses:
    """Clauses under unit propagation, two watched literals each.

    Args:
        size: Number of variables.
    """

    def __init__(self, size: int) -> None:
        self.size, self.is_empty = size, False
        self.watched: dict[int, list[list[int]]] = {}
        self.true: dict[int, list[int] | None] = {}
        self.trail: list[int] = []

    def add(self, literals: list[int]) -> None:
        """Add a clause; nothing may be assumed at that time."""
        clause = sorted(set(literals), key=lambda one: -one in self.true)
        if not clause or -clause[0] in self.true:
            self.is_empty = True
        elif len(clause) == 1 or -clause[1] in self.true:
            self.is_empty |= self.assume(clause[0], clause) is not None
        for literal in clause[:2] if len(clause) > 1 else ():
            self.watched.setdefault(literal, []).append(clause)

    def assume(self, literal: int, reason: list[int] | None = None) -> list[int] | None:
        """Let a literal hold and propagate; return a clause that fails, None if none does."""
        if -literal in self.true:
            return reason or [literal]
        todo = [] if literal in self.true else [literal]
        if todo:
            self._set(literal, reason)
        while todo:
            false = -todo.pop()
            watching, kept = self.watched.get(false, []), list[list[int]]()
            for place, clause in enumerate(watching):
                if clause[0] == false:
                    clause[0], clause[1] = clause[1], false
                if clause[0] in self.true or self._watch_other(clause):
                    if clause[1] == false:
                        kept.append(clause)
                    continue
                kept.append(clause)
                if -clause[0] in self.true:
                    self.watched[false] = kept + watching[place + 1 :]
                    return clause
                self._set(clause[0], clause)
                todo.append(clause[0])
            self.watched[false] = kept
        return None

    def _watch_other(self, clause: list[int]) -> bool:
        for at in range(2, len(clause)):
            if -clause[at] not in self.true:
                clause[1], clause[at] = clause[at], clause[1]
                self.watched.setdefault(clause[1], []).append(clause)
                return True
        return False

    def _set(self, literal: int, reason: list[int] | None) -> None:
        self.true[literal] = reason
        self.trail.append(literal)

    def forget(self, length: int) -> None:
        """Take back what was assumed since the trail had a length."""
        while len(self.trail) > length:
            del self.true[self.trail.pop()]

    def follows(self, literals: list[int]) -> bool:
        """Tell whether a clause follows by unit propagation."""
        begin = len(self.trail)
        failed = self.is_empty or any(self.assume(-one) is not None for one in literals)
        self.forget(begin)
        return failed


def _is_clause(lemma: Any, size: int) -> bool:
    """Tell whether something that was read is a list of literals."""
    return isinstance(lemma, list) and all(type(n) is int and 0 < abs(n) <= size for n in lemma)


def check(orders: Orders, lemmas: list[list[int]]) -> None:
    """Accept a refutation of the waits that are left.

    Raises:
        RejectedError: A clause does not follow, or the last one is not empty.
    """
    size, given = formula(orders)
    clauses = Clauses(size)
    for clause in given:
        clauses.add(clause)
    for number, lemma in enumerate(lemmas):
        if not _is_clause(lemma, size) or not clauses.follows(lemma):
            raise RejectedError(f"clause {number} of the refutation does not follow")
        clauses.add(lemma)
    if not lemmas or lemmas[-1]:
        raise RejectedError("the refutation does not end with the empty clause")
