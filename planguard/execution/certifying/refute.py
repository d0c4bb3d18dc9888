"""A refutation of the formula about circles of waits: search that learns clauses.

What is decided in the search is which waits hold. A contradiction is turned into the clause that
says that its decisions do not go together; each such clause follows by unit propagation from those
before it, which is all that the checker asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.certificate.refutation import Clauses, formula

if TYPE_CHECKING:
    from planguard.certificate.orders import Orders

CONFLICTS = 20_000
"""Contradictions after which the search gives up: no certificate then."""


def refutation(orders: Orders) -> list[list[int]] | None:
    """Return clauses that refute that ranks stand at what is left; None if they may, or not found.

    Args:
        orders: A plan after one order was followed and what can be settled was.

    Raises:
        RejectedError: The formula is too large.
    """
    size, given = formula(orders)
    clauses, lemmas = Clauses(size), list[list[int]]()
    for clause in given:
        clauses.add(clause)
    activity = [0] * (size + 1)
    while not clauses.is_empty:
        conflict, decisions = _search(clauses, activity)
        if conflict is None or len(lemmas) >= CONFLICTS:
            return None
        lemma = _learned(clauses, conflict, decisions)
        for literal in lemma:
            activity[abs(literal)] += 1
        clauses.forget(decisions[0][1] if decisions else 0)
        clauses.add(lemma)
        lemmas.append(lemma)
    if not lemmas or lemmas[-1]:
        lemmas.append([])
    return lemmas


def _search(
    clauses: Clauses, activity: list[int]
) -> tuple[list[int] | None, list[tuple[int, int]]]:
    """Decide until something contradicts itself; return the clause that fails, and the decisions.

    The clause is None if nothing fails. Each decision comes with the length of the trail before it.
    """
    decisions: list[tuple[int, int]] = []
    while True:
        free = [
            variable
            for variable in range(1, clauses.size + 1)
            if variable not in clauses.true and -variable not in clauses.true
        ]
        if not free:
            return None, decisions
        variable = max(free, key=lambda one: activity[one])
        decisions.append((variable, len(clauses.trail)))
        failed = clauses.assume(variable)
        if failed is not None:
            return failed, decisions


def _learned(clauses: Clauses, failed: list[int], decisions: list[tuple[int, int]]) -> list[int]:
    """Return the clause over decisions that a failed clause comes from."""
    chosen = {literal for literal, _ in decisions}
    todo, seen, lemma = [-literal for literal in failed], set[int](), set[int]()
    while todo:
        literal = todo.pop()
        if literal in seen:
            continue
        seen.add(literal)
        reason = clauses.true.get(literal)
        if reason is None:
            if literal in chosen:
                lemma.add(-literal)
            continue
        todo += [-other for other in reason if other != literal]
    return sorted(lemma)
