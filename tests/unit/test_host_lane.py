"""The host of a device rank is a lane of its own: creations, first uses, barriers in open order."""

from __future__ import annotations

import pytest

import planguard

NCCL = ["nccl", "nccl-lazy", "nccl-eager", "nccl-serialized"]
POTENTIAL = planguard.Outcome.POTENTIAL_DEADLOCK


def plan(*programs, groups="AB", world=2):
    """A plan of one program for all ranks, or one for each; its groups hold all ranks."""
    ranks = {f"0-{world - 1}": programs[0]} if len(programs) == 1 else dict(enumerate(programs))
    return {
        "schema": "planguard.plan/1",
        "world_size": world,
        "groups": {name: {"ranks": list(range(world))} for name in groups},
        "ranks": {str(rank): {"actions": actions} for rank, actions in ranks.items()},
    }


def call(group, label, **more):
    """One reduction."""
    return {"op": "all_reduce", "group": group, "bytes": 4, "label": label, **more}


def windows(count, *, chained=False):
    """Blocks of one call of each of two groups, in any order or in one."""
    pairs = [[call("A", f"a{k}"), call("B", f"b{k}")] for k in range(count)]
    return [{"op": "unordered", "body": [pair] if chained else pair} for pair in pairs]


@pytest.mark.parametrize("model", NCCL)
@pytest.mark.parametrize("count", [2, 30, 400])
def test_first_uses_in_blocks_leave_the_exact_routes(model, count):
    """However many windows: some order of the first one is stuck, and no search is asked."""
    verdict = planguard.check(plan(windows(count)), model=model)
    assert verdict.outcome is POTENTIAL
    assert verdict.evidence.route in {("cycle",), ("weak-order",)}
    assert planguard.check(plan(windows(count, chained=True)), model=model).safe


@pytest.mark.parametrize("model", NCCL)
def test_creations_in_any_order_get_stuck_and_in_one_do_not(model):
    """Two hosts that create two communicators in opposite orders wait for each other for ever."""
    made = [{"op": "init", "group": name} for name in "AB"]
    uses = [call("A", "a"), call("B", "b")]
    filler = [{"op": "compute"} for _ in range(9)]  # too many orders to try them all
    free = plan([{"op": "unordered", "body": [*made, *filler]}, *uses])
    assert planguard.check(free, model=model).outcome is POTENTIAL
    tied = plan([{"op": "unordered", "body": [made, *filler]}, *uses])
    verdict = planguard.check(tied, model=model)
    assert verdict.safe
    assert verdict.evidence.route == ("cycle",)


def test_only_the_first_use_creates():
    """A communicator that exists already holds up no host: its uses in a block are plain calls."""
    filler = [{"op": "compute"} for _ in range(9)]
    block = {"op": "unordered", "body": [[call("A", "a"), call("B", "b")], *filler]}
    first = [call("B", "first b"), call("A", "first a")]
    assert planguard.check(plan([*first, block]), model="nccl-lazy").safe
    # One rank uses B first, the other A: the hosts meet in opposite orders.
    verdict = planguard.check(plan([*first, block], [*first[::-1], block]), model="nccl-lazy")
    assert verdict.outcome is planguard.Outcome.DEADLOCK


@pytest.mark.parametrize("end", ["host_sync", "barrier"])
def test_a_host_that_waits_for_its_queue_may_create_too_late(end):
    """Rank 0 may create B before it waits for its queue; rank 1 stands in front of B in that queue.

    Rank 0 takes the creation and what waits for the queue in any order, rank 1 in one. Where rank 0
    waits first, its queue still lacks A, which rank 1 reaches behind B only.
    """
    wait = {"op": end} if end == "host_sync" else {"op": "barrier", "group": "C", "label": "c"}
    create = {"op": "init", "group": "B"}
    filler = [{"op": "compute"} for _ in range(9)]
    mine = [call("A", "a"), {"op": "unordered", "body": [create, wait, *filler]}, call("B", "b")]
    other = [create, call("A", "a"), call("B", "b")]
    if end == "barrier":
        other.insert(2, wait)
    document = plan(mine, other, groups="ABC")
    verdict = planguard.check(document, model="nccl")
    assert verdict.outcome is POTENTIAL
    tied = [mine[0], {"op": "unordered", "body": [[create, wait], *filler]}, mine[2]]
    assert planguard.check(plan(tied, other, groups="ABC"), model="nccl").safe


def test_which_of_two_messages_creates_their_pair_is_open():
    """Either direction of a pair may be the first: both ranks create it, whichever they take."""
    filler = [{"op": "compute"} for _ in range(9)]
    both = {
        rank: {
            "op": "batch",
            "ops": [
                {"op": "send", "peer": 1 - rank, "bytes": 4, "label": f"from {rank}"},
                {"op": "recv", "peer": 1 - rank, "bytes": 4, "label": f"from {1 - rank}"},
            ],
        }
        for rank in range(2)
    }
    programs = [[{"op": "unordered", "body": [both[rank], *filler]}] for rank in range(2)]
    assert planguard.check(plan(*programs), model="nccl-lazy").safe
    ends = [
        [
            {"op": "isend", "peer": 1 - rank, "bytes": 4, "label": f"from {rank}"},
            {"op": "irecv", "peer": 1 - rank, "bytes": 4, "label": f"from {1 - rank}"},
        ]
        for rank in range(2)
    ]
    programs = [
        [{"op": "unordered", "body": [*mine, *filler]}] for mine in (ends[0], ends[1][::-1])
    ]
    assert planguard.check(plan(*programs), model="nccl-lazy").outcome is POTENTIAL
