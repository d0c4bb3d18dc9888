"""Open order beside exits, and plans that get stuck whatever the order is."""

from __future__ import annotations

import itertools
import math

import pytest
from oracle.enumerator import enumerate_plan

import planguard as pg
from planguard.options import MODEL_NAMES
from planguard.reordering.blocks import Block, Leaf, RankOrder, extensions
from planguard.reordering.branches.decide import rounded
from planguard.reordering.explorer import combinations_of
from planguard.reordering.threads.lanes import orders_of

AR = {"op": "all_reduce", "bytes": 4}
AR8 = {"op": "all_reduce", "bytes": 8}
EXIT = {"op": "exit"}
SEND = {"op": "send", "peer": 1, "bytes": 4}
RECV = {"op": "recv", "peer": 0, "bytes": 4}


def plan(*programs):
    """A plan of one program per rank."""
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {"A": {"ranks": list(range(len(programs)))}},
        "ranks": {str(rank): {"actions": list(body)} for rank, body in enumerate(programs)},
    }


def side_by_side(*threads):
    """All orders of chains, each a list of the queues of its calls."""
    starts = [sum(map(len, threads[:at])) for at in range(len(threads))]
    before = [
        {start + at - 1} - {start - 1}
        for start, chain in zip(starts, threads, strict=True)
        for at in range(len(chain))
    ]
    return orders_of(before, list(itertools.chain.from_iterable(threads)))


def opened(*body):
    """A block of open order."""
    return {"op": "unordered", "body": list(body)}


@pytest.mark.parametrize("model", MODEL_NAMES)
@pytest.mark.parametrize(
    ("block", "before", "other"),
    [
        ((AR, EXIT), (), (AR,)),
        ((SEND, EXIT), (AR,), (AR, RECV)),
        ((AR8, EXIT), (), (AR,)),
        (({"op": "barrier"}, EXIT), (AR,), (AR, {"op": "barrier"})),
    ],
    ids=["call", "message", "mismatch", "barrier"],
)
def test_an_exit_in_a_block_does_not_depend_on_the_text(model, block, before, other):
    """Whichever is written first, call or exit: the outcome is that of both orders together."""
    outcomes = set()
    for body in (block, block[::-1]):
        document = plan([*before, opened(*body)], other)
        verdict = pg.check(document, model=model)
        outcomes.add(verdict.outcome.value)
        assert verdict.outcome.value == enumerate_plan(document, model).outcome
        assert all(finding.certainty == "some-execution" for finding in verdict.errors)
    assert len(outcomes) == 1


def test_an_exit_behind_all_calls_of_its_block_changes_nothing():
    """An exit that every call of its block comes before is an exit behind the block."""
    chain = [{**AR, "group": "A"}, EXIT]
    verdict = pg.check(plan([opened(chain)], [{**AR, "group": "A"}]), model="mpi-sync")
    assert verdict.safe, verdict


def head_to_head(count, *, label):
    """Two sends that wait for each other, then many asynchronous calls in any order."""
    programs = []
    for rank in (0, 1):
        calls = [
            {**AR, "async": True, "work": f"h{k}"} | ({"label": f"b{k}"} if label else {})
            for k in range(count)
        ]
        waits = [{"op": "wait", "work": f"h{k}"} for k in range(count)]
        first = {"op": "send", "peer": 1 - rank, "bytes": 4, "mode": "synchronous"}
        then = {"op": "recv", "peer": 1 - rank, "bytes": 4}
        programs.append([first, then, opened(*calls), *waits])
    return plan(*programs)


@pytest.mark.parametrize("model", MODEL_NAMES)
@pytest.mark.parametrize("label", [True, False], ids=["labels", "no-labels"])
def test_stuck_before_any_open_action_is_stuck_in_every_order(model, label):
    """Forty calls of open order behind a certain deadlock: DEADLOCK, one run, no enumeration."""
    if model == "mpi-pg":  # which knows no send modes, and may buffer: the next test
        pytest.skip("the sends of mpi-pg may be buffered")
    verdict = pg.check(head_to_head(40, label=label), model=model)
    assert verdict.outcome is pg.Outcome.DEADLOCK, verdict
    assert verdict.evidence.schedules == 1
    assert {f.certainty for f in verdict.errors if f.cycle} == {"all-executions"}


def test_a_rank_that_reaches_its_block_may_help_in_some_order():
    """What waits for a call of open order is not stuck in every order: not certain."""
    block = opened({**AR, "label": "a"}, {"op": "send", "peer": 1, "bytes": 4})
    document = plan([block], [RECV, {**AR, "label": "a"}])
    for model in ("gloo", "mpi-sync"):
        verdict = pg.check(document, model=model)
        assert verdict.outcome.value == enumerate_plan(document, model).outcome
        assert verdict.outcome is pg.Outcome.POTENTIAL_DEADLOCK


def test_causes_of_one_order_alone_are_not_called_certain():
    """Ranks 0 and 1 are stuck in every order, 2 and 3 in some: only the first is certain."""
    x, y = ({**AR, "group": g, "label": g} for g in ("B", "C"))
    document = plan(
        [{"op": "send", "peer": 1, "bytes": 4}, {"op": "recv", "peer": 1, "bytes": 4}],
        [{"op": "send", "peer": 0, "bytes": 4}, {"op": "recv", "peer": 0, "bytes": 4}],
        [opened(x, y)],
        [opened(y, x)],
    )
    document["groups"] = {"B": {"ranks": [2, 3]}, "C": {"ranks": [2, 3]}}
    verdict = pg.check(document, model="gloo")
    assert verdict.outcome is pg.Outcome.DEADLOCK
    certain = {f.ranks: f.certainty for f in verdict.errors}
    assert certain[(0, 1)] == "all-executions"
    assert set(certain.values()) - {"all-executions"} == {"some-execution"} or len(certain) == 1


def test_no_recursion_over_the_length_of_a_plan():
    """Two thousand blocks and a block of two thousand calls are enumerated without recursion."""
    leaf = Leaf({"op": "compute"}, 0)
    pair = Block((leaf, leaf), (frozenset(), frozenset()))
    orders = [RankOrder(0, (pair,) * 2_000)]
    first, second = itertools.islice(combinations_of(orders), 2)
    assert first == (((0, 1),) * 2_000,)
    assert second == (((0, 1),) * 1_999 + ((1, 0),),)
    free = Block((leaf,) * 2_000, (frozenset(),) * 2_000)
    assert next(extensions(free)) == tuple(range(2_000))
    assert len(next(side_by_side([{"q"}] * 1_500, [{"q"}] * 2))) == 1_502


@pytest.mark.parametrize("count", [0, 1, 3, 4])
def test_extensions_and_interleavings_are_all_and_each_once(count):
    """Every linear extension comes once, the written one first."""
    leaves = tuple(Leaf({"op": "compute"}, at) for at in range(count))
    before = tuple(frozenset({at - 2} if at > 1 else ()) for at in range(count))
    found = list(extensions(Block(leaves, before)))
    rule = [(at - 2, at) for at in range(2, count)]
    every = [
        order
        for order in itertools.permutations(range(count))
        if all(order.index(a) < order.index(b) for a, b in rule)
    ]
    assert found == every
    ways = [tuple(way) for way in side_by_side([{"q"}] * count, [{"q"}] * 2)]
    assert len(set(ways)) == len(ways) == math.comb(count + 2, 2)


@pytest.mark.parametrize("branches", [17, 300])
def test_numbers_of_branches_that_no_float_holds(branches):
    """2^1088 and 2^19200 combinations of branches are told by their size."""
    body = [{"op": "init"}] + [
        {"op": "choice", "name": f"c{k}", "branches": [[AR], [{"op": "all_gather", "bytes": 4}]]}
        for k in range(branches)
    ]
    document = {**plan(), "world_size": 64, "groups": {}, "ranks": {"0-63": {"actions": body}}}
    verdict = pg.check(document, budget=2.0, model="gloo")
    assert verdict.unsafe or verdict.unknown
    assert "e+" in rounded(2 ** (64 * branches))


@pytest.mark.parametrize("first", [{"op": "probe", "peer": 1}, {"op": "recv", "peer": "any"}])
@pytest.mark.parametrize("model", ["mpi-eager", "mpi-sync"])
def test_what_stands_behind_an_exit_sends_nothing(first, model):
    """A send behind an exit is never issued, so a probe or receive for it waits for ever."""
    document = plan([first], [EXIT, {"op": "send", "peer": 0}])
    assert pg.check(document, model=model).outcome.value == enumerate_plan(document, model).outcome


CERTAIN = {
    "receives": ([], [opened(RECV, {**RECV, "bytes": 8})]),
    "collectives": ([{"op": "compute"}], [opened(AR, AR8)]),
    "sends": ([opened(SEND, {**SEND, "bytes": 8})], [AR]),
}


@pytest.mark.parametrize("model", MODEL_NAMES)
@pytest.mark.parametrize("case", CERTAIN)
def test_calls_that_can_meet_nobody_need_no_identity(case, model):
    """Open calls on a channel or group on which nobody else calls are decided without labels."""
    document = plan(*CERTAIN[case])
    verdict = pg.check(document, model=model)
    assert verdict.outcome.value == enumerate_plan(document, model).outcome
    assert verdict.outcome.value == "DEADLOCK"
    both = plan([*CERTAIN[case][0], RECV | {"peer": 1}], [opened(SEND | {"peer": 0}, AR8, AR)])
    one = pg.check(both, model=model)
    assert one.outcome.value in {enumerate_plan(both, model).outcome, "UNKNOWN"}


def test_what_is_not_all_decided_is_not_called_exhaustive():
    """A branch that hangs beside one that is open: not complete, and the evidence says so."""
    begin = {"op": "choice", "name": "c", "uniform": True}
    twin = {**begin, "branches": [[{**RECV, "peer": 1}], [opened(AR, AR)]]}
    same = {**begin, "branches": [[], [opened(AR, AR), {"op": "compute"}]]}
    found = pg.check(plan([twin], [same]), model="gloo")
    assert found.outcome.value == "POTENTIAL_DEADLOCK"
    assert not found.complete
    assert found.evidence.kind == "execution"
