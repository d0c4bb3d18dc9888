from __future__ import annotations

from pathlib import Path

import pytest

import planguard

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

CASES = {
    # The orders of pytorch#172668 and of defer_pp_recv=True: stuck where a pair is one queue.
    "pipelining/pytorch-172668.csv": {"gloo": "SAFE", "nccl": "DEADLOCK", "nccl-lazy": "DEADLOCK"},
    "pipelining/interleaved1f1b-deferred-4x8.csv": {
        "gloo": "SAFE",
        "nccl": "DEADLOCK",
        "nccl-lazy": "DEADLOCK",
    },
    "pipelining/zbv-deferred-2x4.csv": {"gloo": "MISMATCH", "nccl-lazy": "DEADLOCK"},
    "pipelining/interleaved1f1b-4x8.csv": {"gloo": "SAFE", "nccl": "SAFE", "nccl-lazy": "SAFE"},
    # Pairwise rules see nothing here: every two groups share one rank.
    "blind-spots/triangle.plan.json": {
        "nccl": "POTENTIAL_DEADLOCK",
        "nccl-serialized": "DEADLOCK",
        "gloo": "SAFE",
    },
    "blind-spots/cross-group-inversion.plan.json": {"gloo": "DEADLOCK", "nccl": "DEADLOCK"},
    "blind-spots/swapped-all-reduces.plan.json": {"gloo": "MISMATCH", "nccl": "MISMATCH"},
    "blind-spots/three-sends-one-receive.plan.json": {"gloo": "DEADLOCK", "nccl": "DEADLOCK"},
    "blind-spots/correct-pipeline.plan.json": {"gloo": "SAFE", "nccl": "SAFE", "mpi-sync": "SAFE"},
}


@pytest.mark.parametrize("name", CASES)
def test_the_blind_spots_of_other_checkers_are_seen(name):
    """Plans that other tools judge wrongly get the right outcome, with a witness when unsafe."""
    plan = planguard.load(EXAMPLES / name)
    for model, outcome in CASES[name].items():
        verdict = planguard.check(plan, model=model)
        assert verdict.outcome.value == outcome, model
        assert verdict.safe or verdict.witness is not None, model


def test_a_cycle_over_two_groups_is_named_as_one():
    """The cross-group inversion names the cycle, both groups and both ranks."""
    verdict = planguard.check(EXAMPLES / "blind-spots/cross-group-inversion.plan.json")
    (finding,) = verdict.errors
    assert finding.code == "PG004"
    assert finding.ranks == (0, 1)
    assert len(finding.cycle) == 2
    assert "dp" in finding.message
    assert "tp" in finding.message


def test_a_cycle_over_three_groups_is_found():
    """The triangle is a cycle of length three; no two of its groups are inverted."""
    verdict = planguard.check(EXAMPLES / "blind-spots/triangle.plan.json", model="nccl-serialized")
    assert {len(finding.cycle) for finding in verdict.errors if finding.cycle} == {3}
