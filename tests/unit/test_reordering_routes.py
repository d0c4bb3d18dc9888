from __future__ import annotations

import itertools

import pytest
from hard_family import formula, hard_plan, satisfiable

import planguard
from planguard.execution.running.expand import expand
from planguard.options import CheckOptions
from planguard.reordering import strategy
from planguard.reordering.blocks import Block, Leaf, extensions
from planguard.reordering.orders.cycles import Component, components, exhaust, shortest
from planguard.reordering.orders.encoding import solve
from planguard.reordering.orders.shrink import pass_by
from planguard.reordering.orders.weak_graph import may_wait
from planguard.reordering.smt import Answer, Limits
from planguard.semantics.model import find_model, strict


def graph_of(document, model="gloo"):
    """The may-wait graph of a plan whose written order is safe."""
    plan = planguard.load(document)
    task, _ = strategy.prepare(plan, expand(plan), find_model(model), CheckOptions(model=model))
    firsts = tuple(tuple(block.extension for block in order.blocks) for order in task.orders)
    run = task.decide(firsts)[1].run(strict(find_model(model)), origins=True)
    return may_wait(run, task.orders, firsts)


def plan(programs, groups):
    """A plan of explicit programs."""
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {name: {"ranks": ranks} for name, ranks in groups.items()},
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }


def call(group, **more):
    """One reduction, labeled by its group."""
    return {"op": "all_reduce", "group": group, "bytes": 4, "label": group, **more}


def test_a_cycle_that_needs_one_rank_twice_is_no_deadlock():
    """Rank 0 would have to stand at both of its branches: a cycle of the graph, but no order."""
    # Rank 0: a b | c d as chains. Two half cycles, each through rank 0, closed by ranks 1 and 2.
    chains = [[call("a"), call("b")], [call("c"), call("d")]]
    programs = [
        [{"op": "unordered", "body": chains}],
        [call("d"), call("a")],
        [call("b"), call("c")],
    ]
    document = plan(programs, {"a": [0, 1], "b": [0, 2], "c": [0, 2], "d": [0, 1]})
    wanted = {planguard.Outcome.POTENTIAL_DEADLOCK, planguard.Outcome.DEADLOCK}
    verdict = planguard.check(document, model="gloo")
    task, _ = strategy.prepare(
        planguard.load(document),
        expand(planguard.load(document)),
        find_model("gloo"),
        CheckOptions(model="gloo"),
    )
    assert verdict.outcome is strategy.explore_all(task).outcome
    assert verdict.outcome in wanted


@pytest.mark.parametrize("seed", range(4))
def test_search_and_solver_agree_on_formulas(seed):
    """A formula is satisfiable iff its plan can deadlock, by the search and by the solver alone."""
    clauses = formula(3, 1.5 + seed / 2, seed)
    truth = satisfiable(3, clauses)
    found = False
    for members in components(graph_of(hard_plan(3, clauses))):
        part = Component(graph_of(hard_plan(3, clauses)), members)
        stuck, answer = solve(part, Limits(seconds=20))
        assert answer.answer is not Answer.UNKNOWN
        found |= stuck is not None
        if stuck is not None:
            assert part.fits(list(stuck.stands))
        searched, final = exhaust(part, 2_000_000)
        assert final
        assert (searched is not None) == (stuck is not None)
    assert found == truth


@pytest.mark.parametrize(("variables", "seed"), [(8, 0), (8, 1), (10, 0), (10, 1)])
def test_verdicts_on_the_hard_family_are_those_of_the_formula(variables, seed):
    """Unsatisfiable formulas are SAFE, the others a deadlock that was executed."""
    clauses = formula(variables, 4.26, seed)
    verdict = planguard.check(hard_plan(variables, clauses), model="gloo", budget=60)
    assert verdict.safe == (not satisfiable(variables, clauses))
    assert not verdict.unknown


def test_a_hard_plan_within_no_time_is_unknown_and_says_what_was_decided():
    """Past the budget the answer is UNKNOWN with PG903, never SAFE."""
    verdict = planguard.check(hard_plan(30, formula(30, 4.26, 3)), model="gloo", budget=0.2)
    assert verdict.unknown
    assert {f.code for f in verdict.findings} == {"PG903"}
    assert "budget" in verdict.reasons[0]


def test_a_solver_process_gives_the_same_verdict():
    """`solver_process` and a memory limit change where the solver runs, not what it says."""
    from planguard.engine import check_plan

    clauses = formula(10, 4.26, 0)
    loaded = planguard.load(hard_plan(10, clauses))
    options = CheckOptions(model="gloo", solver_process=True, solver_memory_mb=1024)
    verdict = check_plan(loaded, options)
    assert verdict.safe == (not satisfiable(10, clauses))
    assert "smt" in verdict.evidence.route


def test_bags_in_a_row_need_no_search():
    """Bags of two groups whose other members wait for nothing are SAFE by the graph alone."""
    pair = [{"op": "unordered", "body": [call("a"), call("b")]}]
    document = plan([pair, [call("a")], [call("b")]], {"a": [0, 1], "b": [0, 2]})
    assert components(graph_of(document)) == []
    verdict = planguard.check(document, model="gloo")
    assert (verdict.outcome.value, verdict.evidence.route) == ("SAFE", ("weak-order",))


def test_the_witness_moves_one_action_past_another():
    """Of two ranks with the same block, one keeps its written order in the witness."""
    pair = [{"op": "unordered", "body": [call("a"), call("b"), {"op": "compute"}]}]
    document = plan([pair, pair], {"a": [0, 1], "b": [0, 1]})
    part = Component(graph_of(document), components(graph_of(document))[0])
    assert len(shortest(part).stands) == 2
    witness = planguard.check(document, model="gloo").witness
    assert witness.minimal
    assert len(witness.actions) == 4


def test_passing_by_moves_the_fewer_actions():
    """`pass_by` gives an extension with `first` before `second`, for every pair that may swap."""
    leaves = tuple(Leaf({"op": "compute"}, n) for n in range(5))
    before = (frozenset(), frozenset({0}), frozenset(), frozenset({2}), frozenset({1}))
    block = Block(leaves, before)
    every = set(extensions(block))
    for order in every:
        for first, second in itertools.permutations(range(5), 2):
            if any(o.index(first) < o.index(second) for o in every):
                moved = pass_by(block, order, first, second)
                assert moved in every
                assert moved.index(first) < moved.index(second)


def test_the_written_order_is_an_extension():
    """`Block.extension` is one of all extensions, and the written order where that is one."""
    leaves = tuple(Leaf({"op": "compute"}, n) for n in range(4))
    forward = Block(leaves, (frozenset({3}), frozenset(), frozenset({0}), frozenset()))
    assert forward.extension == (1, 3, 0, 2)
    assert forward.extension in set(extensions(forward))
    assert Block(leaves, (frozenset(),) * 4).extension == (0, 1, 2, 3)
