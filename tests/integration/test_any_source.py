"""Receives from any rank, played: who sent is a choice of the plan, also beside new groups."""

# ruff: noqa: D103 - programs as people write them
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

import planguard  # noqa: E402 - torch must be there
from planguard.capture import precheck  # noqa: E402 - same
from planguard.options import CheckOptions  # noqa: E402 - same


def gather():
    """Let rank 0 take one message of every other rank."""
    if dist.get_rank():
        dist.send(torch.ones(4), 0)
        return []
    return [dist.recv(torch.zeros(4)) for _ in range(dist.get_world_size() - 1)]


def alone():
    gather()


def behind_a_group():
    dist.new_group([0, 1])
    gather()
    dist.barrier()


def around_a_group():
    if dist.get_rank() == 0:
        work = dist.irecv(torch.zeros(4))
        dist.new_group([0, 1])
        work.wait()
    else:
        dist.send(torch.ones(4), 0)
        dist.new_group([0, 1])


def in_a_group():
    group = dist.new_group([0, 1])
    if dist.get_rank() == 0:
        dist.recv(torch.zeros(4), group=group)
    elif dist.get_rank() == 1:
        dist.send(torch.ones(4), 0, group=group)
    dist.barrier()


def group_in_the_way():
    if dist.get_rank() == 0:
        dist.recv(torch.zeros(4))
        dist.new_group([0, 1])
    else:
        dist.new_group([0, 1])
        dist.send(torch.ones(4), 0)


def the_sender_decides():
    if 2 in gather()[:1]:
        dist.barrier()


JOBS = {alone: "SAFE", behind_a_group: "SAFE", around_a_group: "SAFE", in_a_group: "SAFE",
        group_in_the_way: "DEADLOCK", the_sender_decides: "UNKNOWN"}  # fmt: skip


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_a_receive_from_any_rank_is_decided(job):
    """torch's ``recv`` looks at the sender itself; that is no decision of the program."""
    world = 2 if job in (around_a_group, group_in_the_way) else 3
    verdict = precheck(world, model="gloo", on_unsafe="return", timeout=60.0).run(job)
    assert verdict.outcome.name == JOBS[job]


def plan(*programs, groups):
    ranks = {str(rank): {"actions": list(actions)} for rank, actions in enumerate(programs)}
    return planguard.load({
        "schema": "planguard.plan/1", "world_size": len(programs), "groups": groups, "ranks": ranks,
    })  # fmt: skip


def new(name):
    return {"op": "new_group", "group": name}


RECEIVE = {"op": "recv", "peer": "any", "count": 4, "dtype": "f32"}
SEND = {"op": "send", "peer": 0, "count": 4, "dtype": "f32"}
TWO = {"a": {"ranks": [0, 1, 2]}, "b": {"ranks": [0, 1, 2]}}


@pytest.mark.parametrize(
    ("orders", "outcome"),
    [(("ab", "ab", "ab"), "SAFE"), (("ab", "ba", "ab"), "UNKNOWN"), (("ab", "ab", "b"), "UNKNOWN")],
)
def test_groups_that_are_created_in_one_order_keep_their_names(orders, outcome):
    """In another order one name is of two communicators, and nobody says what competes."""
    bodies = [{**RECEIVE, "group": "a"}] * 2, [{**SEND, "group": "a"}], [{**SEND, "group": "a"}]
    programs = [[*map(new, order), *body] for order, body in zip(orders, bodies, strict=True)]
    verdict = planguard.check(plan(*programs, groups=TWO), options=CheckOptions(model="gloo"))
    assert verdict.outcome.name == outcome
    if outcome == "UNKNOWN":
        assert "one order" in verdict.reasons[0]


def test_beside_a_broadcast_of_any_size_somebody_may_go_on_early():
    """Rank 0 has the root's data, and need not wait for rank 2: it may, and then both hang."""
    large = {"op": "broadcast", "count": 1 << 20, "dtype": "f32", "root": 1}
    reduce = {"op": "all_reduce", "group": "c", "count": 4, "dtype": "f32"}
    programs = (
        [large, reduce, SEND | {"peer": 1}], [large, {"op": "probe", "peer": "any"}, RECEIVE],
        [reduce, large],
    )  # fmt: skip
    options = CheckOptions(model="mpi-eager")
    verdict = planguard.check(plan(*programs, groups={"c": {"ranks": [0, 2]}}), options=options)
    assert verdict.outcome.name == "POTENTIAL_DEADLOCK"
