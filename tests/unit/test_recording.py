"""Recordings, their promotion to plans, and their comparison with plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

import planguard as pg
from planguard.errors import PlanError
from planguard.recording import (
    UNRECORDED,
    Call,
    Gap,
    Observed,
    Progress,
    RankRecord,
    RecordedGroup,
    Recording,
    Track,
)
from planguard.recording.compare import Status, compare
from planguard.recording.planned import planned_calls, recording_of
from planguard.verdict import Source


def plan_of(*ranks, groups=None, **more):
    """A plan with one explicit program per rank."""
    return pg.load(
        {
            "schema": "planguard.plan/1",
            "world_size": len(ranks),
            "groups": groups or {},
            "ranks": {str(rank): {"actions": list(actions)} for rank, actions in enumerate(ranks)},
            **more,
        }
    )


def reduce(count=4, **fields):
    """A planned all_reduce."""
    return {"op": "all_reduce", "count": count, "dtype": "f32", **fields}


def seen(*calls, ended=True):
    """A recording of one-group programs, one tuple of calls per rank."""
    world = tuple(range(len(calls)))
    ranks = {
        rank: RankRecord(rank, tuple(Observed(call) for call in row), has_ended=ended)
        for rank, row in enumerate(calls)
    }
    return Recording(len(calls), ranks, {"world": RecordedGroup("world", world, world)})


AR = Call("all_reduce", "world", count=4, dtype="f32")
BC = Call("broadcast", "world", root=0, count=4, dtype="f32")


def test_a_complete_recording_becomes_the_plan_that_was_followed():
    """A recording without gaps is promoted to a plan with the same calls, sizes and call sites."""
    call = Call("all_reduce", "world", count=4, dtype="f32", stack=(Source("a.py", 3, "f"),))
    send = Call("send", "world", peer=1, count=2, dtype="f32")
    recv = Call("recv", "world", peer=0, count=2, dtype="f32")
    plan = seen((call, send), (call, recv)).to_plan()
    assert plan.describe_action(0, 1) == "send -> 1  8 B f32"
    assert plan.location(1, 0).source == Source("a.py", 3, "f")
    assert pg.check(plan, model="gloo").safe


def test_a_recording_with_gaps_is_no_plan():
    """Promotion refuses gaps and the error names each."""
    recording = replace(
        seen((AR,), (AR,)),
        gaps=(
            Gap("missing-rank", "no dump from rank 2", "PG911"),
            Gap("truncated-ring", "rank 0 dropped 7 operations", "PG912"),
        ),
    )
    with pytest.raises(PlanError) as caught:
        recording.to_plan()
    assert caught.value.code == "PG911"
    assert "no dump from rank 2" in str(caught.value)
    assert "rank 0 dropped 7 operations" in str(caught.value)


def test_handles_and_batches_survive_promotion():
    """Asynchronous calls keep their handles and launches of several stay one launch."""
    actions = [
        (
            Observed(AR, is_async=True, work="w"),
            Observed(Call("isend", "world", peer=1 - rank, nbytes=8), is_async=False, batch=1),
            Observed(Call("irecv", "world", peer=1 - rank, nbytes=8), is_async=False, batch=1),
            Observed(Call("wait"), work="w"),
        )
        for rank in (0, 1)
    ]
    recording = replace(
        seen((), ()), ranks={rank: RankRecord(rank, row) for rank, row in enumerate(actions)}
    )
    plan = recording.to_plan()
    assert [plan.action_at(0, n).op for n in range(plan.length(0))] == [
        "all_reduce",
        "batch",
        "wait",
    ]
    assert pg.check(plan, model="nccl").safe


def test_a_plan_compared_with_itself_is_equal():
    """A captured plan equals the plan it is, blocks of free order and batches included."""
    plan = plan_of(
        *[
            [
                reduce(),
                {"op": "unordered", "body": [reduce(8, id="x"), [{"op": "barrier"}, reduce(2)]]},
                {"op": "batch", "ops": [{"op": "isend", "peer": 1 - rank, "bytes": 4}]}
                if rank == 0
                else {"op": "batch", "ops": [{"op": "irecv", "peer": 0, "bytes": 4}]},
            ]
            for rank in (0, 1)
        ]
    )
    result = compare(recording_of(plan), plan)
    assert result.is_equal
    assert {status for rank in result.ranks for status in rank.groups.values()} == {Status.EQUAL}


def test_planned_calls_carry_the_action_numbers_of_the_plan():
    """The action index of a planned call describes that call in the plan, inside blocks too."""
    row = [
        {"op": "choice", "name": "c", "branches": [[reduce(1)], [reduce(2)]]},
        {"op": "threads", "threads": [[reduce(3)], [reduce(4)]]},
        {"op": "unordered", "body": [reduce(5), [reduce(6), reduce(7)]]},
        {"op": "repeat", "times": 2, "body": [reduce(8)]},
    ]
    plan = plan_of(row, row)
    for one in planned_calls(plan)[0]:
        assert plan.describe_action(0, one.action).endswith(f"{one.call.bytes} B f32")


@pytest.mark.parametrize(
    ("recorded", "status"),
    [
        ((AR, BC), Status.EQUAL),
        ((BC, AR), Status.REORDERED),
        ((AR, BC, AR), Status.EXTRA),
        ((AR,), Status.MISSING),
        ((AR, Call("broadcast", "world", nbytes=9)), Status.DIFFERENT),
    ],
)
def test_each_kind_of_difference_has_its_name(recorded, status):
    """Equal, reordered, extra, missing and different calls are told apart."""
    plan = plan_of(*[[reduce(), {"op": "broadcast", "root": 0, "count": 4, "dtype": "f32"}]] * 2)
    result = compare(seen(recorded, (AR, BC)), plan)
    assert result.ranks[0].groups == {"world": status}
    assert result.ranks[1].groups == {"world": Status.EQUAL}
    assert (result.ranks[0].first is None) == (status is Status.EQUAL)


def test_the_first_difference_has_both_call_sites():
    """A divergence names the planned and the recorded call and where each comes from."""
    plan = plan_of([reduce(src=["plan.py", 7, "emit"])], [reduce()])
    other = Call("barrier", "world", stack=(Source("train.py", 9, "step"),))
    first = compare(seen((other,), (AR,)), plan).ranks[0].first
    assert first is not None
    assert first.planned.call.source == Source("plan.py", 7, "emit")
    assert first.recorded.call.source == Source("train.py", 9, "step")


def test_an_order_that_the_plan_leaves_free_is_no_difference():
    """Any admissible order of a free block conforms; an order that `after` forbids does not."""
    free = {"op": "unordered", "body": [reduce(1, id="a"), reduce(2), reduce(3, after=["a"])]}
    plan = plan_of([free], [free])
    one, two, three = (Call("all_reduce", "world", count=n, dtype="f32") for n in (1, 2, 3))
    result = compare(seen((two, one, three), (three, two, one)), plan)
    assert result.ranks[0].groups == {"world": Status.EQUAL}
    assert result.ranks[1].groups == {"world": Status.REORDERED}


def test_a_rank_that_has_not_ended_may_not_have_reached_the_rest():
    """Planned calls behind the last recorded one are unreached, not missing, until the end."""
    plan = plan_of(*[[reduce(), reduce(), {"op": "barrier"}]] * 2)
    result = compare(seen((AR,), (AR, AR), ended=False), plan)
    assert result.is_equal
    assert [rank.unreached for rank in result.ranks] == [2, 1]


def test_unknown_fields_make_no_difference():
    """A recorder that writes no root and no reduce operation does not disagree about them."""
    plan = plan_of(*[[{"op": "broadcast", "root": 1, "count": 4, "dtype": "f32"}]] * 2)
    bare = Call("broadcast", "world", count=4, dtype="f32")
    assert compare(seen((bare,), (bare,)), plan).is_equal


def test_a_counted_call_stands_for_a_planned_send():
    """A placeholder of a recorder that counts sends without writing them down fits a send."""
    plan = plan_of(
        [reduce(), {"op": "send", "peer": 1, "bytes": 4}],
        [reduce(), {"op": "recv", "peer": 0, "bytes": 4}],
    )
    hidden = Call(UNRECORDED, "world")
    assert compare(seen((AR, hidden), (AR, hidden)), plan).is_equal
    assert not compare(seen((hidden, AR), (AR, hidden)), plan).is_equal


def test_calls_of_a_framework_at_its_start_are_left_out():
    """Calls made by the listed functions before anything else belong to no plan."""
    start = Call(
        "broadcast", "world", nbytes=9, stack=(Source("ddp.py", 1, "_sync_module_states"),)
    )
    plan = plan_of([reduce()], [reduce()])
    result = compare(seen((start, AR), (AR, start)), plan)
    assert result.ranks[0].groups == {"world": Status.EQUAL}
    assert result.ranks[0].prologue == 1
    assert result.ranks[1].groups == {"world": Status.EXTRA}


def test_groups_are_recognized_by_their_members():
    """A group that the recording calls 3 is the plan's tp when it has the same members."""
    plan = plan_of([reduce(group="tp")], [reduce(group="tp")], [], groups={"tp": {"ranks": [0, 1]}})
    call = Call("all_reduce", "3", count=4, dtype="f32")
    base = seen((call,), (call,), ())
    groups = {**base.groups, "3": RecordedGroup("3", (0, 1), (0, 1))}
    result = compare(replace(base, groups=groups), plan)
    assert result.is_equal
    assert result.ranks[0].groups == {"tp": Status.EQUAL}


def test_equal_calls_of_a_recording_make_the_plan_that_they_make_one_by_one():
    """Actions that are one object in a document change nothing in the plan."""
    from planguard.recording import promote

    call = Call("all_reduce", "world", count=4, dtype="f32", stack=(Source("a.py", 3, "f"),))
    send = Call("isend", "world", peer=1, count=2, dtype="f32", tag=3)
    plain = [Observed(one, progress=Progress.COMPLETED) for one in (call, send, call, send, call)]
    launched = [Observed(send, progress=Progress.COMPLETED, batch=4)] * 2
    waited = [Observed(call, is_async=True, work="w"), Observed(Call("wait"), work="w")]
    for actions in (plain, launched + plain, waited + plain, []):
        record = RankRecord(0, Track.of(actions))
        assert promote._shared(record) == promote._own(record)
