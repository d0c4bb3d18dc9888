"""What the page of the Intel Trace Collector says of deadlocks, asked of PlanGuard."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import planguard
from planguard.live import guard
from planguard.options import CheckOptions
from planguard.plan.format import read
from planguard.repair import fix


def plan_of(*ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """Explicit rank programs of small messages as a plan."""
    programs = {
        str(rank): {"actions": [{"bytes": 64, **action} for action in actions]}
        for rank, actions in enumerate(ranks)
    }
    return {"schema": "planguard.plan/1", "world_size": len(ranks), "ranks": programs}


HEAD_TO_HEAD = plan_of(
    [{"op": "send", "peer": 1}, {"op": "recv", "peer": 1}],
    [{"op": "send", "peer": 0}, {"op": "recv", "peer": 0}],
)
BEHIND_A_COLLECTIVE = plan_of(
    [{"op": "all_reduce"}, {"op": "send", "peer": 1}],
    [{"op": "recv", "peer": 0}, {"op": "all_reduce"}],
)


@pytest.mark.parametrize(
    ("model", "outcome"),
    [
        ("mpi-eager", "POTENTIAL_DEADLOCK"),
        ("mpi-pg", "POTENTIAL_DEADLOCK"),
        ("mpi-sync", "DEADLOCK"),
    ],
)
def test_head_to_head_sends_are_potential_until_sends_are_synchronous(model, outcome):
    """Two small sends that face each other hang if the library does not buffer them: potential
    where it may, certain where every send is synchronous, which is how the Collector finds them.
    """
    assert planguard.check(HEAD_TO_HEAD, model=model).outcome.value == outcome


@pytest.mark.parametrize(
    ("plan", "kind", "said"),
    [
        (HEAD_TO_HEAD, "batch", "post #0 send -> 1 and #1 recv <- 1 as one batch"),
        (BEHIND_A_COLLECTIVE, "move", "issue #1 send -> 1 before #0 all_reduce"),
    ],
)
def test_the_two_hints_are_given_and_proved(plan, kind, said):
    """Messages in the circle: send and receive are posted without blocking. A collective in front
    of a send that another rank waits for: the send goes first. With the hint, the plan is SAFE.
    """
    loaded = planguard.load(plan)
    options = CheckOptions(model="gloo")
    found = fix(loaded, planguard.check(loaded, options=options), options)
    (repair,) = [one for finding in found.verdict.findings for one in finding.fixes]
    assert (repair.kind, repair.applicability) == (kind, "verified")
    assert said in repair.text
    assert planguard.check(read(found.text), model="gloo").safe


def test_the_guard_waits_a_minute_unless_told_otherwise():
    """The default timeout is that of DEADLOCK-TIMEOUT."""
    assert inspect.signature(guard).parameters["timeout"].default == 60.0
