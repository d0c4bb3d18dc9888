"""One join of outcomes for all exhaustive routes."""

from __future__ import annotations

import itertools
import time

import pytest

import planguard as pg
from planguard.execution.findings.cause import make_finding, open_finding
from planguard.execution.findings.reason import TABLE, Kind, Reason, out_of_time
from planguard.explain.prose import condition
from planguard.operations import OperationSpec, register, unregister
from planguard.options import CheckOptions, Running, running
from planguard.plan.fixed import FixedPlan
from planguard.reordering.cases.together import Part, combined, open_verdict
from planguard.reordering.cases.together import together as of_parts
from planguard.reordering.join import Case, case_of, join, says_disagreement
from planguard.verdict import Outcome, Verdict

S, P, D, M, U = (
    Outcome.SAFE,
    Outcome.POTENTIAL_DEADLOCK,
    Outcome.DEADLOCK,
    Outcome.MISMATCH,
    Outcome.UNKNOWN,
)
CASES = [Case(S), Case(P), Case(D), Case(D, mixes=True), Case(M, mixes=True), Case(U)]
SETS = [found for size in range(1, len(CASES) + 1) for found in itertools.combinations(CASES, size)]
# What the executions of one case can be: (stuck for a reason of its own, disagrees).
FINE, STUCK, ODD, BOTH = (False, False), (True, False), (False, True), (True, True)
EXECUTIONS = [FINE, STUCK, ODD, BOTH]


def outcome_of(executions):
    """The outcome of a plan with exactly these executions, by the definitions."""
    if all(stuck for stuck, _ in executions):
        return D
    if any(odd for _, odd in executions):
        return M
    return P if any(stuck for stuck, _ in executions) else S


def meanings(case):
    """All sets of executions of which a case is the right description."""
    every = [
        set(found)
        for size in range(1, len(EXECUTIONS) + 1)
        for found in itertools.combinations(EXECUTIONS, size)
    ]
    if case.outcome is U:
        return every
    return [
        found
        for found in every
        if outcome_of(found) is case.outcome and any(odd for _, odd in found) == case.mixes
    ]


@pytest.mark.parametrize("cases", [found for found in SETS if Case(U) not in found])
def test_the_join_is_what_the_definitions_say(cases):
    """Without UNKNOWN the join is the outcome of all executions together, whatever they are."""
    possible = {
        outcome_of(set().union(*chosen)) for chosen in itertools.product(*map(meanings, cases))
    }
    assert possible == {join(cases)}


@pytest.mark.parametrize("cases", [found for found in SETS if Case(U) in found])
def test_what_is_known_to_go_wrong_is_never_dropped(cases):
    """With UNKNOWN cases the answer is unsafe iff a known case is, and claims no more than that."""
    found = join(cases)
    known = [case for case in cases if case.outcome is not U]
    wrong = any(case.outcome is not S for case in known)
    assert found is not U if wrong else found is U
    assert found is not S
    possible = {
        outcome_of(set().union(*chosen)) for chosen in itertools.product(*map(meanings, cases))
    }
    # An unsafe answer is never worse than the truth can be at its mildest, but for the one case
    # in which all that is known is stuck: there "some get stuck" is said.
    if wrong and {case.outcome for case in known} != {D}:
        assert found.severity <= min(one.severity for one in possible)
    if found is D:
        assert possible == {D}


def test_nothing_decided_is_unknown():
    """No case at all is UNKNOWN, never SAFE."""
    assert join([]) is U


@pytest.mark.parametrize(
    "seen", [{U, P}, {S, U, P}, {S, U, D}, {U, P, D}], ids=lambda s: "+".join(sorted(map(str, s)))
)
def test_branches_and_fused_buffers_agree(seen):
    """The four sets on which the joins once disagreed: a known unsafe execution counts."""
    verdicts = [Verdict(outcome, "gloo") for outcome in seen]
    parts = [Part(None, verdict) for verdict in verdicts]
    assert of_parts(parts) is join(map(case_of, verdicts)) is P


def test_a_fused_layout_that_differs_is_a_disagreement():
    """PG104 names members that disagree, as PG202 does; a stuck state renamed PG102 does not."""
    assert says_disagreement(make_finding("PG104", "sizes differ", severity="error"))
    stuck = make_finding("PG102", "stuck", severity="error", subkind="cycle")
    assert not says_disagreement(stuck)


@pytest.mark.parametrize("kind", Kind)
def test_code_and_advice_follow_the_kind_alone(kind):
    """No word in a reason changes the code or the advice of its finding."""
    words = "budget exhausted, memory, solver process, more than 9 combinations of branches ("
    plain, odd = open_finding(Reason(kind, "x")), open_finding(Reason(kind, words))
    assert (plain.code, plain.help) == (odd.code, odd.help) == TABLE[kind]


def test_an_operation_of_any_name_keeps_the_code():
    """An unlabeled operation called like a limit is PG904, not PG903."""
    register(OperationSpec(name="budget_shift"))
    try:
        two = [{"op": "budget_shift", "bytes": 4}, {"op": "budget_shift", "bytes": 4}]
        quiet = {"op": "compute", "op_name": "c"}
        plan = {
            "schema": "planguard.plan/1",
            "world_size": 2,
            "ranks": {
                "0": {"actions": [{"op": "unordered", "body": two}]},
                "1": {"actions": [{"op": "unordered", "body": [*two]}, quiet]},
            },
        }
        verdict = pg.check(plan, model="gloo")
        assert [f.code for f in verdict.findings] == ["PG904"], verdict
    finally:
        unregister("budget_shift")


def test_one_deadline_for_all_models():
    """Options that run keep the end of their budget through every copy and every route."""
    begun = running(CheckOptions(budget=1.0))
    assert isinstance(begun, Running)
    assert running(begun) is begun
    assert running(CheckOptions()).deadline.left() is None


AR = {"op": "all_reduce", "bytes": 4}
LABELED = [{**AR, "label": name} for name in "ab"]


def two(first, second):
    """A plan of two ranks."""
    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "ranks": {"0": {"actions": first}, "1": {"actions": second}},
    }


@pytest.mark.parametrize("model", ["gloo", "nccl", "mpi-sync"])
@pytest.mark.parametrize(
    "document",
    [
        two([AR, AR], [{"op": "unordered", "body": LABELED}]),
        two(
            [{"op": "send", "peer": 1, "bytes": 4}] * 2,
            [
                {
                    "op": "unordered",
                    "body": [{"op": "recv", "peer": 0, "bytes": 4, "label": k} for k in "ab"],
                }
            ],
        ),
        two([AR, AR], [{"op": "threads", "threads": [[one] for one in LABELED]}]),
    ],
    ids=["calls", "messages", "threads"],
)
def test_labels_of_one_side_judge_nothing(document, model):
    """Calls that may change places and meet calls without a label are never SAFE."""
    verdict = pg.check(document, model=model)
    assert verdict.unknown or verdict.unsafe, verdict
    assert not verdict.safe


def choice(*branches):
    """A branch that all ranks take alike."""
    return {"op": "choice", "name": "c", "uniform": True, "branches": [*branches]}


@pytest.mark.parametrize("model", ["gloo", "nccl", "mpi-sync"])
def test_nothing_to_check_is_unknown_in_every_route(model):
    """Branches and threads in which nothing matches are UNKNOWN, PG910; one call is enough."""
    for first in ([choice([], [])], [{"op": "threads", "threads": []}]):
        verdict = pg.check(two(first, []), model=model)
        assert verdict.unknown
        assert {f.code for f in verdict.findings} == {"PG910"}
    verdict = pg.check(two([choice([], [AR])], [choice([], [AR])]), model=model)
    assert verdict.safe
    assert not verdict.findings


def test_one_budget_for_all_nine_models():
    """Nine models under a budget of half a second take that, not nine times as long."""
    # Each message says something else, so that who meets whom matters: 2^24 states at least.
    ranks = {
        str(rank): {"actions": [{"op": "send", "peer": 0, "bytes": 4, "label": f"w{rank}"}]}
        for rank in range(1, 25)
    }
    ranks["0"] = {"actions": [{"op": "recv", "peer": "any", "bytes": 4}] * 24}
    plan = pg.load(
        {"schema": "planguard.plan/1", "world_size": 25, "ranks": ranks, "model": "gloo"}
    )
    started = time.perf_counter()
    verdict = pg.check(plan, model="all", budget=0.5)
    assert time.perf_counter() - started < 3
    assert set(verdict.models.values()) == {U}
    assert {f.code for f in verdict.findings} == {"PG903"}


def test_the_threshold_of_the_check_is_the_one_that_is_named():
    """With ``eager_bytes`` of a MiB nothing says 4 KiB, in words or in JSON."""
    first, second = (
        [
            {"op": "send", "peer": peer, "bytes": 1 << 21},
            {"op": "recv", "peer": peer, "bytes": 1 << 21},
        ]
        for peer in (1, 0)
    )
    options = CheckOptions(model="mpi-eager", eager_bytes=1 << 20)
    verdict = pg.check(two(first, second), options=options)
    assert [c.eager_bytes for c in verdict.safe_iff] == [1 << 20]
    (said,) = map(condition, verdict.safe_iff)
    assert "at most 1.00 MiB" in said
    assert verdict.to_json()["safe_iff"] == [
        {"kind": "send-buffering", "bytes": 1 << 21, "eager_bytes": 1 << 20}
    ]
    usual = pg.check(two(first, second), model="mpi-eager")
    assert [c.eager_bytes for c in usual.safe_iff] == [None]
    assert "at most 4.00 KiB" in condition(usual.safe_iff[0])


def test_what_could_not_be_shown_in_time_is_not_claimed():
    """A part that goes wrong in brief, and of which the whole decision ran out of time, leaves the
    plan UNKNOWN with that reason: a DEADLOCK has its finding.
    """
    builder = pg.PlanBuilder(2)
    builder.program([0, 1]).barrier()
    plan = builder.build()
    brief = Verdict(Outcome.DEADLOCK, "nccl", models={"nccl": Outcome.DEADLOCK})
    full = open_verdict(plan, "nccl", out_of_time(""))
    part = Part(FixedPlan(plan, ((0,), (0,))), brief)
    found = combined(plan, [part], full, part, "PG006")
    assert found.unknown
    assert [one.code for one in found.findings] == ["PG903"]
    assert found.reasons
