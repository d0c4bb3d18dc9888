from __future__ import annotations

import pytest
from oracle.enumerator import enumerate_plan

import planguard
from planguard.execution.running.expand import expand
from planguard.reordering.blocks import count_extensions, extensions, reaches, take_apart
from planguard.reordering.orders.rounds import movable


def step(*items, then=()):
    """Make a plan of two ranks that both run one block of open order."""
    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {"A": {"ranks": [0, 1]}, "B": {"ranks": [0, 1]}},
        "templates": {"step": [{"op": "unordered", "body": list(items)}, *then]},
        "ranks": {"0-1": {"template": "step"}},
    }


def reduce(group, **more):
    """One all_reduce on a group."""
    return {"op": "all_reduce", "group": group, "bytes": 4, **more}


def blocks(document):
    """The blocks of open order of all ranks."""
    plan = planguard.load(document)
    _, orders = take_apart(plan, expand(plan))
    return [block for order in orders for block in order.blocks]


def test_swapped_reductions_of_one_group_are_out_of_round():
    """Two unordered collectives of one group can be swapped by one rank: MISMATCH, PG102."""
    verdict = planguard.check(step(reduce("A", label="x"), reduce("A", label="y")), model="nccl")
    assert verdict.outcome is planguard.Outcome.MISMATCH
    assert {f.code for f in verdict.errors} == {"PG102"}
    assert verdict.evidence.route == ("rounds",)
    assert verdict.evidence.schedules == 2


def test_an_edge_between_them_makes_the_rounds_safe():
    """With `after` the order on the group is a chain, and the plan is safe."""
    first, second = reduce("A", label="x", id="x"), reduce("A", label="y", after=["x"])
    verdict = planguard.check(step(first, second), model="gloo")
    assert verdict.safe
    assert verdict.evidence.schedules == 1


def test_a_nested_list_keeps_its_order():
    """A chain admits only its own order; beside one free action it admits one order per place."""
    (block, _) = blocks(step([reduce("A"), reduce("A")], reduce("B")))
    assert list(extensions(block)) == [(0, 1, 2), (0, 2, 1), (2, 0, 1)]
    assert reaches(block) == [set(), {0}, set()]


def test_opposite_orders_of_synchronous_groups_may_deadlock():
    """Synchronous collectives of two groups in open order: some orders hang, others pass."""
    document = step(reduce("A", label="a"), reduce("B", label="b"))
    for model in ("gloo", "nccl", "mpi-sync"):
        verdict = planguard.check(document, model=model)
        assert verdict.outcome is planguard.Outcome.POTENTIAL_DEADLOCK, model
        assert all(f.certainty == "some-execution" for f in verdict.errors)


def test_asynchronous_groups_in_any_order_are_safe_where_wait_blocks_the_host():
    """Asynchronous collectives of different groups do not depend on their order under gloo."""
    items = [reduce("A", **{"async": True}, work="a"), reduce("B", **{"async": True}, work="b")]
    document = step(*items, then=[{"op": "wait", "work": ["a", "b"]}])
    verdict = planguard.check(document, model="gloo")
    assert verdict.safe
    assert verdict.evidence.route == ("any-order",)
    assert planguard.check(document, model="nccl").outcome is planguard.Outcome.POTENTIAL_DEADLOCK


def test_what_has_no_identity_and_may_move_is_undecided():
    """Unlabeled collectives that may change places on ranks with different programs: UNKNOWN."""
    body = [reduce("A"), reduce("A")]
    document = step(*body)
    document["templates"]["other"] = [{"op": "unordered", "body": body}, {"op": "compute"}]
    document["ranks"] = {"0": {"template": "step"}, "1": {"template": "other"}}
    verdict = planguard.check(document, model="nccl")
    assert verdict.unknown
    assert "different programs" in verdict.reasons[0]


def undecided(count):
    """A block in which a group ends makes every route but exhaustion inapplicable."""
    return step(
        {"op": "destroy", "group": "B"},
        *({"op": "compute"} for _ in range(count)),
        reduce("A", label="a"),
    )


def test_too_many_orders_are_undecided_and_say_so():
    """More orders than are explored, without a budget, give UNKNOWN with PG903."""
    verdict = planguard.check(undecided(7), model="nccl")
    assert verdict.unknown
    assert {f.code for f in verdict.findings} == {"PG903"}
    assert "more than 2,000" in verdict.reasons[0]


def test_a_budget_that_runs_out_is_never_safe():
    """An exploration cut short is UNKNOWN."""
    verdict = planguard.check(undecided(7), model="nccl", budget=1e-4)
    assert verdict.unknown


def test_counting_stops_at_its_limit():
    """The number of linear extensions is exact below the limit and cut at it."""
    (block, _) = blocks(step(*(reduce("A", label=str(n)) for n in range(4))))
    assert count_extensions(block, 100) == 24
    assert count_extensions(block, 10) == 10
    assert movable(block) == [0, 1, 2, 3]


def test_findings_name_the_actions_of_the_plan():
    """Findings about an order point at actions of the plan that leaves it open."""
    plan = planguard.load(step({"op": "compute"}, reduce("A", label="x"), reduce("A", label="y")))
    finding = planguard.check(plan, model="nccl").errors[0]
    assert finding.primary is not None
    assert plan.action_at(finding.primary.rank, finding.primary.action).op == "all_reduce"
    assert finding.witness is not None
    for rank, action in finding.witness.actions:
        assert plan.action_at(rank, action).op == "all_reduce"


def test_a_block_inside_a_chain_is_open_too():
    """A nested `unordered` leaves its own order open and fences its chain at both ends."""
    inner = {"op": "unordered", "body": [reduce("A", label="a"), reduce("B", label="b")]}
    (block, _) = blocks(step([{"op": "compute"}, inner, {"op": "compute"}]))
    assert list(extensions(block)) == [(0, 1, 2, 3), (0, 2, 1, 3)]
    verdict = planguard.check(step([inner]), model="gloo")
    assert verdict.outcome is planguard.Outcome.POTENTIAL_DEADLOCK


def test_a_wait_comes_after_its_start_and_a_computation_after_what_it_needs():
    """Handles and data dependencies order actions of a block without `after`."""
    start = reduce("A", **{"async": True}, work="h", id="a")
    wait, compute = {"op": "wait", "work": "h"}, {"op": "compute", "deps": ["a"]}
    (block, _) = blocks(step(start, wait, compute, reduce("B")))
    assert reaches(block) == [set(), {0}, {0}, set()]
    assert planguard.check(step(start, wait, compute), model="gloo").safe


def test_after_names_whole_blocks_too():
    """A block comes after an action, and an action or a block after all of a block named."""
    first, second = reduce("A", label="x", id="x"), reduce("B", label="y")
    last = {"op": "unordered", "body": [reduce("A", label="z")], "id": "last", "after": ["x"]}
    (block, _) = blocks(step(first, last))
    assert reaches(block) == [set(), {0}]
    early = {"op": "unordered", "body": [first, second], "id": "early"}
    (block, _) = blocks(step(early, reduce("A", label="z", after=["early"])))
    assert reaches(block) == [set(), set(), {0, 1}]
    late = {"op": "unordered", "body": [reduce("A", label="z")], "after": ["early"]}
    (block, _) = blocks(step(late, {**early, "id": "early"}))
    assert reaches(block) == [{1, 2}, set(), set()]


@pytest.mark.parametrize("model", ["gloo", "nccl", "mpi-sync"])
def test_a_block_that_is_named_orders_the_rounds(model):
    """The same calls in a named block and after it: safe as a chain, wrong without the name."""
    early = {"op": "unordered", "body": [reduce("A", label="x")], "id": "early"}
    late = reduce("A", label="y")
    document = step(early, {**late, "after": ["early"]})
    assert planguard.check(document, model=model).safe
    assert enumerate_plan(document, model).outcome == "SAFE"
    document = step(early, late)
    assert planguard.check(document, model=model).outcome is planguard.Outcome.MISMATCH
    assert enumerate_plan(document, model).outcome == "MISMATCH"
