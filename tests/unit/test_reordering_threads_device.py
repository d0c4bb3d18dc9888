from __future__ import annotations

from typing import Any

import pytest
from oracle.enumerator import enumerate_plan

import planguard

Item = dict[str, Any]
NCCL = ("nccl", "nccl-eager", "nccl-lazy", "nccl-serialized")
SYNC: Item = {"op": "host_sync"}


def call(group: str, number: int = 0) -> Item:
    """Return a labeled reduction."""
    return {"op": "all_reduce", "group": group, "bytes": 4, "label": f"{group}{number}"}


def threads(*chains: list[Item]) -> Item:
    """Return a block of host threads."""
    return {"op": "threads", "threads": list(chains)}


def plan_of(*programs: list[Item]) -> Item:
    """Return a plan over two groups of all ranks."""
    members = list(range(len(programs)))
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {"A": {"ranks": members}, "B": {"ranks": members}},
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }


def outcome_of(plan: Item, model: str) -> str:
    """Return the outcome of a plan, which is that of the enumerator, too."""
    verdict = planguard.check(planguard.load(plan), model=model)
    assert verdict.outcome.value == enumerate_plan(plan, model).outcome
    return verdict.outcome.value


@pytest.mark.parametrize("model", NCCL)
def test_a_thread_that_waits_for_the_device_holds_up_no_other(model):
    """One host stands at a synchronization, the other thread still makes the call it needs."""
    one = [threads([call("A"), SYNC], [call("A", 1)])]
    other = [threads([call("A"), SYNC, call("A", 1)])]
    plan = plan_of([call("A", 9), *one], [call("A", 9), *other])
    # With one host for both threads the first synchronization could stand before the second call.
    assert outcome_of(plan, model) == "MISMATCH"
    named = plan_of(
        [call("A", 9), call("B", 9), threads([call("A"), SYNC], [call("B"), SYNC])],
        [call("A", 9), call("B", 9), call("A"), SYNC, call("B"), SYNC],
    )
    assert outcome_of(named, model) == "POTENTIAL_DEADLOCK"


@pytest.mark.parametrize("model", NCCL)
def test_equal_orders_across_a_synchronization_are_safe(model):
    """Threads that do nothing but wait on the host change nothing."""
    program = [call("A"), threads([call("B"), SYNC], [SYNC]), call("A", 1)]
    assert outcome_of(plan_of(program, program), model) == "SAFE"


def test_a_call_takes_its_turn_when_its_communicator_exists():
    """A thread that stands at the creation of B launched nothing that A would have to wait for."""
    plan = plan_of([call("A"), SYNC, call("B")], [threads([call("B")], [call("A")])])
    assert outcome_of(plan, "nccl-lazy") == "SAFE"
    assert outcome_of(plan, "nccl") == "POTENTIAL_DEADLOCK"


def test_barriers_of_two_threads_race():
    """A barrier blocks its host, so the order of two barriers of two threads decides."""
    barriers = [{"op": "barrier", "group": "A"}], [{"op": "barrier", "group": "B"}]
    made = [call("A"), call("B")]
    plan = plan_of([*made, threads(*barriers)], [*made, threads(*barriers)])
    for model in NCCL:
        assert outcome_of(plan, model) == "POTENTIAL_DEADLOCK"


def test_communicators_made_before_the_threads_block_nobody():
    """Under nccl-lazy the first use is what blocks: threads that come later are chains."""
    made = [call("A", 9), call("B", 9)]
    plan = plan_of([*made, threads([call("A")], [call("B")])], [*made, call("A"), call("B")])
    for model in NCCL:
        verdict = planguard.check(planguard.load(plan), model=model)
        assert verdict.outcome.value == "POTENTIAL_DEADLOCK"


def test_two_threads_that_may_create_one_communicator_are_not_decided():
    """What torch does then is not stated, and the reason names the communicator."""
    plan = plan_of([threads([call("A")], [call("A", 1)])], [call("A"), call("A", 1)])
    verdict = planguard.check(planguard.load(plan), model="nccl-lazy")
    assert verdict.unknown
    assert "the communicator of A, which two threads may be the first to use" in str(
        verdict.reasons
    )


def test_a_witness_of_threads_that_block_is_executed_again():
    """The witness keeps host lanes apart and gets stuck again when it is run."""
    plan = plan_of(
        [threads([call("A"), SYNC], [call("B"), SYNC])],
        [threads([call("A"), SYNC], [call("B"), SYNC])],
    )
    verdict = planguard.check(planguard.load(plan), model="nccl-lazy")
    assert verdict.outcome.value == "POTENTIAL_DEADLOCK"
    assert verdict.witness is not None
    assert {f.code for f in verdict.findings if f.severity == "error"} <= {
        "PG004",
        "PG102",
        "PG107",
    }


@pytest.mark.parametrize("model", NCCL)
def test_a_thread_waits_for_a_barrier_where_it_says_so(model):
    """Between an asynchronous barrier and the wait for it the host goes on: it creates a
    communicator that the other rank creates first. This was DEADLOCK.
    """
    barrier = {"op": "barrier", "async": True, "work": "h", "label": "b"}
    made, wait = {"op": "init", "group": "B"}, {"op": "wait", "work": "h"}
    mine = [{"op": "init", "group": "world"}, threads([barrier, made, wait], [{"op": "compute"}])]
    other = [{"op": "init", "group": "world"}, made, barrier, wait]
    assert outcome_of(plan_of(mine, other), model) == "SAFE"
