"""An entry of the ledger that speaks of what a rank does from an action on."""

from __future__ import annotations

import pytest

import planguard as pg
from planguard.plan.building.builder import PlanBuilder

SIZE = {"count": 1, "dtype": "f32"}


def decide(first, mine, theirs):
    """Check a plan of two ranks in which rank 1 may do otherwise from one of its actions on."""
    builder = PlanBuilder(2)
    own = builder.group("own", [1])
    for rank, ops in enumerate((mine, theirs)):
        for op in ops:
            where = own if op == "own" else "world"
            size = {} if op == "barrier" else SIZE
            builder.program(rank).add(op="all_reduce" if op == "own" else op, group=where, **size)
    places = [] if first is None else [(1, first)]
    builder.approximate("guess", "it guessed", "over", places, scope="onward")
    return pg.check(builder.build(), model="gloo")


@pytest.mark.parametrize(
    ("first", "is_certain"), [(0, False), (1, False), (2, True), (3, True), (None, True)]
)
def test_what_is_issued_in_front_disagrees_for_certain(first, is_certain):
    """Rank 1's call 1 is no barrier, unless what it does there is open."""
    mine, theirs = ["all_reduce", "barrier"], ["all_reduce", "all_reduce", "own", "own"]
    verdict = decide(first, mine, theirs)
    assert verdict.unsafe == is_certain
    assert verdict.unknown != is_certain
    assert verdict.findings[0].code == "PG201"


@pytest.mark.parametrize("first", [1, 2, None])
def test_what_nobody_issues_may_come(first):
    """Rank 1 never reaches the barrier, as far as it is known; it may go on to it."""
    verdict = decide(first, ["all_reduce", "barrier"], ["all_reduce", "own", "own"])
    assert verdict.unknown


def test_a_plan_keeps_the_scope():
    """It is part of the plan format."""
    verdict = decide(2, ["all_reduce", "all_reduce"], ["all_reduce", "all_reduce", "own"])
    assert verdict.safe  # ``over`` admits too much, and what it admits is right
    assert [(a.scope, a.actions) for a in verdict.approximations] == [("onward", ((1, 2),))]
