"""The clauses of circles of waits, their limits, and unit propagation against a naive one."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import pytest

import planguard
from planguard.certificate import refutation
from planguard.certificate.agreement import RejectedError
from planguard.certificate.orders import Orders
from planguard.certificate.refutation import Clauses, formula
from planguard.plan.flatten import flat_lines

RUN = [[0, 0], [1, 0], [0, 1], [1, 1]]
FREE = [{"op": "all_reduce", "group": group, "bytes": 4, "label": group} for group in "ab"]
TIED = [FREE[0] | {"id": "a"}, FREE[1] | {"after": ["a"]}]


def followed(*bodies: list[dict[str, Any]], order: Any = RUN, settled: Any = ()) -> Orders:
    """Give two ranks with a block each, after one order was followed and some waits settled."""
    groups = {name: {"ranks": [0, 1]} for name in "ab"}
    ranks = {
        str(rank): {"actions": [{"op": "unordered", "body": body}]}
        for rank, body in enumerate(bodies)
    }
    plan = {"schema": "planguard.plan/1", "world_size": 2, "groups": groups, "ranks": ranks}
    orders = Orders(json.loads(b"".join(flat_lines(planguard.load(plan)))), "gloo")
    orders.follow(order)
    for rank, action in settled:
        orders.settle(rank, action)
    return orders


def test_each_wait_needs_somebody_who_is_late_and_no_rank_stands_at_two():
    """Clauses of two ranks with two waits each: free, one after the other, and partly settled."""
    ends = [[1, 2, 3, 4]], [[-1, -2], [-3, -4]]
    free = [[-1, 4], [-2, 3], [-3, 2], [-4, 1]]
    assert formula(followed(FREE, FREE)) == (4, [*ends[0], *free, *ends[1]])
    tied = [[-1], [-2, 3], [-3], [-4, 1]]
    assert formula(followed(TIED, TIED)) == (4, [*ends[0], *tied, *ends[1]])
    assert formula(followed(TIED, TIED, settled=RUN[:2])) == (2, [[1, 2], [-1], [-2]])
    assert formula(followed(TIED, TIED, settled=RUN)) == (0, [[]])


def test_a_rank_outside_a_circle_stands_at_one_wait_too():
    """Variables are numbered through all ranks, and pairs are of one rank."""
    three = [*FREE, FREE[0] | {"label": "c", "after": ["a"]}]
    three[0] = TIED[0]
    size, clauses = formula(followed(three, three, order=[*RUN, [0, 2], [1, 2]]))
    pairs = [[-1, -2], [-1, -3], [-2, -3], [-4, -5], [-4, -6], [-5, -6]]
    assert (size, clauses[-6:]) == (6, pairs)


def test_a_formula_that_is_too_large_is_rejected(monkeypatch):
    """Six literals and seven clauses: each limit holds exactly."""
    orders = followed(TIED, TIED)
    for limit, what in ((5, "5 literals"), (6, "6 clauses")):
        monkeypatch.setattr(refutation, "MAX_LITERALS", limit)
        with pytest.raises(RejectedError, match=what):
            formula(orders)
    monkeypatch.setattr(refutation, "MAX_LITERALS", 7)
    assert formula(orders)[0] == 4


def propagates(clauses: list[list[int]], assumed: list[int]) -> tuple[bool, set[int]]:
    """Propagate by looking at every clause again; tell whether one fails, and what holds."""
    true, grows = set(assumed), True
    while grows:
        grows = False
        for clause in clauses:
            left = [one for one in {*clause} if -one not in true]
            if not left or any(-one in true for one in true):
                return True, true
            if len(left) == 1 and left[0] not in true:
                true.add(left[0])
                grows = True
    return any(-one in true for one in true), true


@pytest.mark.parametrize("seed", range(40))
def test_unit_propagation_is_that_of_the_definition(seed):
    """A clause follows exactly if its negation propagates to a failure, clause after clause, and
    asking changes nothing.
    """
    rng = random.Random(seed)
    clauses, given = Clauses(8), list[list[int]]()
    for _ in range(30):
        size = rng.choice([1, 2, 2, 3, 3, 3, 4, 5]) if rng.random() < 0.9 else rng.randint(6, 8)
        clause = [rng.choice([1, -1]) * rng.randint(1, 8) for _ in range(size)]
        for _ in range(4):
            ask = [rng.choice([1, -1]) * one for one in rng.sample(range(1, 9), rng.randint(0, 3))]
            expected, _ = propagates(given, [-one for one in ask])
            assert clauses.follows(ask) == expected, (given, ask)
        given.append(clause)
        clauses.add(clause)
        fails, true = propagates(given, [])
        assert clauses.is_empty == fails
        if fails:
            return
        assert set(clauses.true) == true
        assert clauses.trail == list(clauses.true)


def test_only_lists_of_known_literals_are_clauses():
    """Numbers of variables with a sign; nothing else, and no other type."""
    assert all(refutation._is_clause(one, 3) for one in ([], [1], [-3, 3]))
    wrong = ([0], [4], [-4], [True], ["1"], [1.0], "1", None, {1: 2}, (1,))
    assert not any(refutation._is_clause(one, 3) for one in wrong)


def test_clauses_follow_from_those_before_and_end_with_the_empty_one():
    """Each lemma may use those before it; what does not follow is named by its number."""
    circle = followed(FREE, FREE)
    for lemmas, said in (
        ([[-1], [-2], []], "clause 0"),
        ([[1, 2], []], "clause 1"),
        ([[1, 2], [9]], "clause 1"),
        ([[1, 2]], "does not end"),
        ([], "does not end"),
    ):
        with pytest.raises(RejectedError, match=said):
            refutation.check(circle, lemmas)
    tied = followed(TIED, TIED)
    refutation.check(tied, [[]])
    refutation.check(tied, [[-2], [-4], []])


def test_a_clause_that_fails_leaves_the_others_watched():
    """After a conflict in the middle of a list of watchers, those behind it still propagate."""
    clauses = Clauses(5)
    for clause in ([-3, -5, 1], [3, 1], [-2, 3, 4], [-3, 5], [3, -2], [-3, -1]):
        clauses.add(clause)
    assert clauses.follows([-3])
    assert clauses.follows([1])


def test_an_action_comes_after_its_own_earlier_stages():
    """An action that waits twice may stay at its first wait, which keeps the second from coming."""
    block = SimpleNamespace(begin=0, above={0: 0})
    orders: Any = SimpleNamespace(
        home={0: {0: 0}}, front={0: 0}, blocks={0: [block]}, open={0: [1]},
        settled={(0, 0): 0}, stages={(0, 0): [[], []]},
    )  # fmt: skip
    assert list(refutation._before(orders, 0, 0, 1)) == [(0, 0, 0)]
    assert list(refutation._before(orders, 0, 0, 0)) == []
