"""Negotiated members that hosts wait for where they submit them, and members that few submit."""

from __future__ import annotations

from typing import Any

import pytest
from test_background_launches import call, member, plan, said, wait

import planguard

Item = dict[str, Any]
DEVICES = ("nccl", "nccl-eager", "nccl-lazy", "nccl-serialized")


def blocking(name: str, **more: Any) -> Item:
    """Return a member that is waited for at once."""
    return {"op": "all_reduce", "bytes": 8, "group": "world", "id": name, "label": name, **more}


@pytest.mark.parametrize("model", [*DEVICES, "gloo-detail"])
def test_hosts_meet_at_a_blocking_member_beside_what_holds_them_up(model: str) -> None:
    """A synchronization of the host behind the same members on all ranks is safe."""
    program = [blocking("a"), {"op": "host_sync"}, call("x"), blocking("b"), {"op": "barrier"}]
    assert said(plan(program), model) == "SAFE"


@pytest.mark.parametrize("model", [*DEVICES, "gloo-detail"])
def test_hosts_that_wait_for_each_others_members_are_stuck(model: str) -> None:
    """In opposite order, whatever devices do."""
    given = plan([blocking("a"), blocking("b")], [blocking("b"), blocking("a")])
    verdict = planguard.check(given, model=model)
    assert verdict.outcome.value == "DEADLOCK"
    if model != "gloo-detail":
        assert "rank 0 waits for a of of world, which rank 1 has not" in verdict.findings[0].message


@pytest.mark.parametrize("model", [*DEVICES, "gloo-detail"])
def test_in_any_order_some_pass_and_some_do_not(model: str) -> None:
    """A block of two members leaves it to each rank which is first."""
    program = [{"op": "unordered", "body": [blocking("a"), blocking("b")]}, {"op": "host_sync"}]
    assert said(plan(program), model) == "POTENTIAL_DEADLOCK"


@pytest.mark.parametrize("model", DEVICES)
def test_a_blocking_member_in_one_of_two_threads(model: str) -> None:
    """What stands in the other thread goes on."""
    block = {"op": "threads", "threads": [[blocking("a"), blocking("b")], [{"op": "host_sync"}]]}
    assert said(plan([block]), model) == "SAFE"
    crossed = [blocking("b"), blocking("a")]
    assert said(plan([block], crossed), model) == "DEADLOCK"


@pytest.mark.parametrize("model", DEVICES)
def test_sizes_of_a_blocking_member_are_compared(model: str) -> None:
    """By its name, as Horovod's controller does."""
    given = plan([blocking("a"), blocking("b")], [blocking("a", bytes=16), blocking("b")])
    assert said(given, model) == "MISMATCH"


@pytest.mark.parametrize("model", ["nccl", "gloo-detail"])
def test_what_one_rank_never_submits_is_never_launched(model: str) -> None:
    """Nobody waits for it: the calls beside it decide. Somebody does: its host stands for ever."""
    end = [call("x"), member("b"), wait("b")]
    assert said(plan([member("a"), *end], end), model) == "SAFE"
    assert said(plan([call("x"), member("a"), wait("a"), *end[1:]], end), model) == "DEADLOCK"


def test_under_gloo_detail_a_host_that_waits_for_a_member_is_named() -> None:
    """What is told speaks of members, and not of the messages that stand for them."""
    given = plan(
        [member("a"), wait("a"), call("x"), member("b"), wait("b")],
        [call("x"), member("a"), member("b"), wait("a", "b")],
    )
    verdict = planguard.check(given, model="gloo-detail")
    assert verdict.outcome.value == "DEADLOCK"
    (finding,) = verdict.errors
    assert "rank 0 waits for a, which rank 1 has not submitted" in finding.message
    assert "isend" not in str(finding)


def test_under_gloo_detail_sizes_of_members_are_compared() -> None:
    """Where the ranks come to their ends, all members were launched."""
    mine = [member("a"), call("x"), member("b"), wait("a", "b")]
    other = [member("a") | {"bytes": 16}, call("x"), member("b"), wait("a", "b")]
    verdict = planguard.check(plan(mine, other), model="gloo-detail")
    assert verdict.outcome.value == "MISMATCH"
    assert "16 B" in str(verdict.findings)
    stuck = [call("x"), member("b"), wait("b"), member("a") | {"bytes": 16}, wait("a")]
    first = [member("a"), wait("a"), call("x"), member("b"), wait("b")]
    assert said(plan(first, stuck), "gloo-detail") == "DEADLOCK"


@pytest.mark.parametrize("model", [*DEVICES, "gloo-detail", "mpi-pg"])
def test_a_host_that_waits_for_what_nobody_launches_never_ends(model: str) -> None:
    """Under every model, beside anything: one rank never submits the member."""
    first = [member("a"), call("x"), {"op": "unordered", "body": [wait("a"), call("y", "other")]}]
    given = plan(first, [call("x"), call("y", "other")], buffers={"world": ["a"]})
    verdict = planguard.check(given, model=model)
    assert verdict.outcome.value == "DEADLOCK"
    assert "rank 0 waits for a, which" in verdict.errors[0].message


def test_a_rank_that_may_be_gone_before_it_waits_is_left_open() -> None:
    """An exit in a thread may come before the wait."""
    threads = {"op": "threads", "threads": [[wait("a")], [{"op": "exit"}]]}
    given = plan([member("a"), call("x"), threads], [call("x")], buffers={"world": ["a"]})
    assert said(given, "nccl") != "DEADLOCK"


@pytest.mark.parametrize("model", DEVICES)
def test_members_in_a_row_are_launched_beside_what_holds_hosts_up(model: str) -> None:
    """The background is a thread from there on, and hosts wait until all have submitted."""
    safe = [call("x"), member("a"), member("b"), wait("a", "b"), {"op": "host_sync"}, call("y")]
    assert said(plan(safe), model) == "SAFE"
    other = [call("x"), {"op": "host_sync"}, member("b"), member("a"), wait("a", "b"), call("y")]
    assert said(plan(safe, other), model) == "SAFE"
    late = [member("a"), wait("a"), {"op": "barrier"}]
    early = [{"op": "barrier"}, member("a"), wait("a")]
    assert said(plan(late, early, buffers={"world": ["a"]}), model) == "DEADLOCK"


def test_sizes_that_are_written_in_another_way_are_equal() -> None:
    """Bytes on one rank, elements on the other one."""
    other = [member("a"), call("x"), member("b"), wait("a", "b")]
    mine: list[Item] = [dict(one) for one in other]
    del mine[0]["bytes"]
    mine[0] |= {"count": 2, "dtype": "f32"}
    assert said(plan(mine, other), "gloo-detail") == "SAFE"
