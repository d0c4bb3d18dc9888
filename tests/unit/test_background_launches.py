"""Negotiated members that are launched in the background, where the place of a launch counts."""

from __future__ import annotations

import random
from typing import Any

import pytest

import planguard

Item = dict[str, Any]
QUEUED = ("nccl", "nccl-eager", "nccl-serialized")


def call(name: str, group: str = "tp", **more: Any) -> Item:
    """Return a call of another group than the one that negotiates."""
    return {"op": "all_reduce", "bytes": 8, "group": group, "label": name, **more}


def member(name: str, group: str = "world") -> Item:
    """Return a member."""
    return call(name, group, id=name, work=name) | {"async": True}


def wait(*names: str) -> Item:
    """Return a wait."""
    return {"op": "wait", "work": list(names)}


def plan(
    *programs: list[Item], ranks: int = 2, buffers: dict[str, list[str]] | None = None
) -> Item:
    """Return a plan; the last program is that of all other ranks."""
    used = [*programs, *[programs[-1]] * (ranks - len(programs))]
    every = list(range(ranks))
    return {
        "schema": "planguard.plan/1",
        "world_size": ranks,
        "groups": {"tp": {"ranks": every}, "other": {"ranks": every}},
        "fusion": [
            {"id": f"of {group}", "group": group, "coordination": "negotiated", "members": names}
            for group, names in (buffers or {"world": ["a", "b"]}).items()
        ],
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(used)},
    }


def said(given: Item, model: str) -> str:
    """Return the outcome."""
    return planguard.check(given, model=model).outcome.value


@pytest.mark.parametrize("model", QUEUED)
def test_a_call_between_a_member_and_its_wait_may_come_before_the_launch_or_behind(
    model: str,
) -> None:
    """One rank launches the member first and the other one the call: each waits for the other."""
    given = plan([member("a"), call("x"), member("b"), wait("a", "b")])
    verdict = planguard.check(given, model=model)
    assert verdict.outcome.value == "POTENTIAL_DEADLOCK"
    finding = verdict.errors[0]
    assert finding.code == "PG004"
    assert {(edge.at.rank, edge.at.action) for edge in finding.cycle} == {(0, 0), (1, 1)}
    assert "launched in the background, anywhere up to the wait for it: a" in finding.notes
    assert "background of world" in finding.message
    assert finding.witness is not None
    assert verdict.certificate is None


@pytest.mark.parametrize("model", QUEUED)
def test_a_member_that_is_waited_for_before_the_call_has_one_place(model: str) -> None:
    """Then the call is behind the launch on every rank, whatever else is under way."""
    given = plan([member("a"), wait("a"), call("x"), member("b"), wait("b"), call("y")])
    assert said(given, model) == "SAFE"
    later = plan([call("x"), member("a"), member("b"), wait("b"), wait("a"), call("y")])
    assert said(later, model) == "SAFE"


def test_ranks_that_wait_for_each_others_members_are_never_safe() -> None:
    """Each waits for what the other one has not submitted: the hosts stand still, no queue does."""
    given = plan(
        [member("a"), wait("a"), call("x"), member("b"), wait("b")],
        [member("b"), wait("b"), call("x"), member("a"), wait("a")],
    )
    assert said(given, "gloo") == "DEADLOCK"
    assert all(said(given, model) in {"UNKNOWN", "DEADLOCK"} for model in (*QUEUED, "gloo-detail"))


@pytest.mark.parametrize("op", ["barrier", "host_sync"])
def test_a_call_that_holds_the_host_up_leaves_it_open(op: str) -> None:
    """The host that waits for a member may be held up by one that stands in a barrier."""
    held = {"op": op} if op == "host_sync" else {"op": op, "group": "other"}
    given = plan(
        [member("a"), wait("a"), call("x"), held, member("b"), wait("b")],
        [held, member("a"), wait("a"), call("x"), member("b"), wait("b")],
    )
    assert all(said(given, model) == "UNKNOWN" for model in QUEUED)


def test_two_groups_that_negotiate_on_one_rank_are_safe_or_open() -> None:
    """Their background threads share no order, so a place is not one that happens by itself."""
    buffers = {"world": ["a"], "other": ["b"]}
    crossed = plan([member("a"), member("b", "other"), call("x"), wait("a", "b")], buffers=buffers)
    assert all(said(crossed, model) == "UNKNOWN" for model in QUEUED)
    in_turn = [member("a"), wait("a"), call("x"), member("b", "other"), wait("b"), call("y")]
    assert all(said(plan(in_turn, buffers=buffers), model) == "SAFE" for model in QUEUED)


def test_a_handle_that_is_bound_again_is_not_mistaken_for_the_member() -> None:
    """The second wait is for another call; the member has one place, in front of the first."""
    again = [
        member("a"), wait("a"), call("x"), call("y", work="a") | {"async": True}, wait("a"),
        member("b"), wait("b"), call("z"),
    ]  # fmt: skip
    assert all(said(plan(again), model) in {"SAFE", "UNKNOWN"} for model in QUEUED)


def test_under_gloo_detail_a_wait_ends_when_all_have_submitted() -> None:
    """A blocking call that waits for nobody's member stands where it likes."""
    given = plan([member("a"), call("x"), member("b"), wait("a", "b")])
    assert said(given, "gloo-detail") == "SAFE"
    # One rank stands in the call, the other one waits for a member that is submitted behind it.
    stuck = plan(
        [call("x"), member("a"), member("b"), wait("a", "b")],
        [member("a"), wait("a"), call("x"), member("b"), wait("b")],
    )
    assert said(stuck, "gloo") == "DEADLOCK"
    assert said(stuck, "gloo-detail") in {"DEADLOCK", "UNKNOWN"}


def test_many_members_are_decided_where_one_order_shows_a_stuck_run() -> None:
    """Of a hundred members in one block there are more orders than can be decided."""
    names = [f"m{n}" for n in range(100)]
    block = {"op": "unordered", "body": [member(name) for name in names]}
    program = [block, call("x"), wait(*names)]
    assert said(plan(program, buffers={"world": names}), "nccl") == "POTENTIAL_DEADLOCK"


@pytest.mark.parametrize("model", [*QUEUED, "gloo-detail"])
def test_an_order_that_rank_0_sends_is_no_launch_in_the_background(model: str) -> None:
    """Two members that change sizes in one bucket disagree, beside nothing that is negotiated."""
    sizes = [{"a": 8, "b": 12}, {"a": 12, "b": 8}]
    given = plan(
        *([member(name) | {"bytes": one[name]} for name in one] + [wait("a", "b")] for one in sizes)
    )
    given["fusion"][0] |= {"coordination": "rank0-broadcast", "membership": "fixed"}
    given["fusion"][0] |= {"launch": "ordered"}
    verdict = planguard.check(given, model=model)
    assert verdict.outcome.value == "MISMATCH"


@pytest.mark.parametrize("name", ["background of world", "a of of world"])
def test_a_group_that_is_called_as_launches_are_is_another_communicator(name: str) -> None:
    """The call of such a group is no launch: what would mix the two up is left open."""
    given = plan([member("a"), call("x", name), member("b"), wait("a", "b")])
    given["groups"][name] = {"ranks": [0, 1]}
    plain = plan([member("a"), call("x"), member("b"), wait("a", "b")])
    for model in (*QUEUED, "gloo", "gloo-detail"):
        assert said(given, model) in {said(plain, model), "UNKNOWN"}


@pytest.mark.parametrize("model", ["nccl", "nccl-eager", "nccl-lazy", "nccl-serialized"])
def test_ranks_of_one_program_need_no_meeting_of_their_hosts(model: str) -> None:
    """All come to the same places in one order; with a step more on one rank, which changes
    nothing, the hosts are asked for, and the answer is the same.
    """
    rng = random.Random(model)
    for _ in range(60):
        calls: list[dict[str, Any]] = [
            {"op": "init", "group": "a"},
            {"op": "all_reduce", "group": "a", "bytes": 8, "label": "x"},
            {"op": "all_reduce", "group": "b", "bytes": 8, "label": "y"},
            {"op": "barrier", "group": "a"},
            {"op": "host_sync"},
        ]
        names = ["m0", "m1"][: rng.choice([1, 2])]
        settled: list[Any] = [
            {"op": "unordered", "body": [
                {"op": "all_reduce", "async": True, "bytes": 4, "id": name, "work": name,
                 "label": name, "group": "a"} for name in names]},
            {"op": "wait", "work": names},
        ]  # fmt: skip
        front = rng.sample(calls, rng.randint(0, 3))
        program = [*front, *settled, *(call for call in calls if call not in front)]
        if rng.random() < 0.3:
            program.append({"op": "recv", "peer": 1, "bytes": 4})  # no one program any more
        outcomes = set()
        other = [one for one in program if one["op"] != "recv"]
        for more in ([], [{"op": "compute", "op_name": "step"}]):
            one = {"0": {"actions": program}, "1": {"actions": [*more, *other]}}
            outcomes.add(planguard.check(_settled(one, names), model=model).outcome.value)
        if program == other:
            one = {"0-1": {"actions": program}}
            outcomes.add(planguard.check(_settled(one, names), model=model).outcome.value)
        assert len(outcomes) == 1
        assert outcomes <= ({"SAFE"} if program[-1]["op"] != "recv" else {"DEADLOCK"})


def _settled(ranks: Item, names: list[str]) -> Item:
    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {"a": {"ranks": [0, 1]}, "b": {"ranks": [0, 1]}},
        "fusion": [{"id": "f", "group": "a", "coordination": "negotiated", "members": names}],
        "ranks": ranks,
    }


def message(kind: str, peer: int, group: str = "world") -> Item:
    """Return a message of eight bytes that its rank does not wait for."""
    return {"op": kind, "peer": peer, "bytes": 8, "label": "p", "group": group}


@pytest.mark.parametrize("model", ["nccl", "nccl-eager"])
def test_a_member_does_not_stand_behind_messages_of_its_group(model: str) -> None:
    """It has a communicator of its own: where each has a queue, it passes the message there.

    With one queue for all of them it stands behind the send, whose receive its host would issue
    only behind the wait: so some execution hangs, and not every one.
    """
    one = {"world": ["a"]}
    behind = [message("isend", 1), member("a"), wait("a")]
    given = plan(behind, [member("a"), wait("a"), message("irecv", 0)], buffers=one)
    verdict = planguard.check(given, model=model)
    assert verdict.outcome.value == "POTENTIAL_DEADLOCK"
    assert said(given, "nccl-serialized") == "DEADLOCK"
    alike = plan(behind, [message("irecv", 0), member("a"), wait("a")], buffers=one)
    assert said(alike, model) == said(alike, "nccl-serialized") == "SAFE"


@pytest.mark.parametrize("group", ["world", "other"])
def test_members_carry_no_number_of_the_messages_of_their_group(group: str) -> None:
    """On their own communicator there are none; only those of the group itself are in the way."""
    one = {"world": ["a"]}
    given = plan(
        [message("isend", 1, group), member("a"), wait("a")],
        [member("a"), wait("a"), message("irecv", 0, group)],
        buffers=one,
    )
    assert said(given, "gloo") == "SAFE"
    assert said(given, "gloo-detail") == ("UNKNOWN" if group == "world" else "SAFE")
