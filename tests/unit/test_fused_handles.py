"""Handles of members of fused buffers: bound again, and waited for on two streams."""

from __future__ import annotations

from typing import Any

import pytest
from oracle.flushes import outcome_of

import planguard

Item = dict[str, Any]


def member(name: str, work: str) -> Item:
    """Return a reduction of eight bytes that has a handle."""
    return {"op": "all_reduce", "bytes": 8, "id": name, "label": name, "async": True, "work": work}


def plan_of(first: list[Any], second: list[Any] | None = None, **policy: Any) -> Item:
    """Return a plan of two ranks with a buffer of fixed buckets of one member each."""
    policy = {"membership": "fixed", "launch": "ordered", "cap_bytes": 8} | policy
    spec = {"id": "f", "group": "world", "members": ["x", "y"], **policy}
    ranks = {"0": {"actions": first}, "1": {"actions": first if second is None else second}}
    return {"schema": "planguard.plan/1", "world_size": 2, "fusion": [spec], "ranks": ranks,
            "groups": {"B": {"ranks": [0, 1]}}}  # fmt: skip


WAIT: Item = {"op": "wait", "work": "h"}
PLAIN: Item = {"op": "all_reduce", "bytes": 4, "async": True, "work": "h"}


@pytest.mark.parametrize("model", ["gloo", "nccl"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_handle_that_is_bound_again_means_the_call_in_front_of_the_wait(
    model: str, inside: bool
) -> None:
    """Every wait is for what was started last, member or not: nothing is waited for too early."""
    members: list[list[Item]] = [[member(name, "h")] for name in ("x", "y")]
    x, y = ([{"op": "unordered", "body": one}] if inside else one for one in members)
    for actions in (
        [PLAIN, WAIT, *x, WAIT, *y, WAIT],
        [*x, WAIT, PLAIN, WAIT, *y, WAIT],
        [*x, WAIT, *y, WAIT, PLAIN, WAIT],
    ):
        plan = plan_of(actions)
        assert planguard.check(plan, model=model).outcome.value == "SAFE"
        assert outcome_of(plan, model) == "SAFE"


@pytest.mark.parametrize("last", ["h", "other"])
def test_a_wait_in_front_of_the_last_member_of_its_bucket_is_found_behind_another_use(
    last: str,
) -> None:
    """One bucket of both members: with the first one alone no wait for it ends, whatever handle of
    that name was waited for before.
    """
    plan = plan_of([PLAIN, WAIT, member("x", "h"), WAIT, member("y", last)], cap_bytes=16)
    assert planguard.check(plan, model="gloo").outcome.value == "DEADLOCK"
    assert outcome_of(plan, "gloo") == "DEADLOCK"
    whole = [PLAIN, WAIT, member("x", "h"), member("y", "other"), WAIT]
    assert planguard.check(plan_of(whole, cap_bytes=16), model="gloo").safe


def test_handles_of_iterations() -> None:
    """In a loop the members of each iteration have the handles of the one before."""
    loop = {"op": "repeat", "times": 3, "body": [member("x{i}", "h"), WAIT]}
    plan = plan_of([loop], members=["x{i}"])
    assert planguard.check(plan, model="gloo").safe


def test_a_second_wait_for_a_flush_on_another_stream_is_not_taken_for_none() -> None:
    """Behind the second wait stream ``side`` stands in front of the flush, which a peer issues the
    other way round: DEADLOCK if one wait says so, UNKNOWN if the second one does.
    """
    call = {"op": "all_reduce", "bytes": 4, "group": "B", "stream": "side", "label": "z"}
    members = [member("x", "x"), member("y", "y")]
    one = [*members, {"op": "wait", "work": ["x", "y"], "stream": "side"}, call]
    two = [*members, {"op": "wait", "work": "x"}, {"op": "wait", "work": "y", "stream": "side"},
           call]  # fmt: skip
    same = [*members, {"op": "wait", "work": "x", "stream": "side"},
            {"op": "wait", "work": "y", "stream": "side"}, call]  # fmt: skip
    other = [call, {"op": "all_reduce", "bytes": 16, "label": "x+y", "stream": "side"}]
    found = [planguard.check(plan_of(first, other, cap_bytes=16), model="nccl")
             for first in (one, two, same)]  # fmt: skip
    assert [verdict.outcome.value for verdict in found] == ["DEADLOCK", "UNKNOWN", "DEADLOCK"]
    assert "on two streams" in found[1].reasons[0]
    host = planguard.check(plan_of(two, other, cap_bytes=16), model="gloo")
    assert not host.unknown
