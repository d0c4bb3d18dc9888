"""Calls without labels beside members of fused buffers: which of them belong together."""

from __future__ import annotations

from typing import Any

import pytest

import planguard
from planguard.verdict import Outcome

Item = dict[str, Any]
MODELS = ("gloo", "gloo-detail", "nccl", "nccl-serialized", "mpi-sync", "mpi-pg")
POLICIES = ({}, {"membership": "fixed"}, {"coordination": "negotiated"})


def member(name: str) -> Item:
    """Return a member of a fused buffer."""
    return {"op": "all_reduce", "bytes": 8, "id": name, "label": name, "async": True, "work": name}


def call(**more: Any) -> Item:
    """Return a call of another group."""
    return {"op": "all_reduce", "bytes": 4, "group": "side", "async": True, **more}


def program(*beside: Any) -> list[Item]:
    """Return a program of one block and the wait for its member."""
    block = {"op": "unordered", "body": [member("g"), *beside]}
    return [block, {"op": "wait", "work": "g"}]


def verdict_of(ranks: dict[str, list[Item]], model: str, **policy: Any) -> planguard.Verdict:
    """Return the verdict on programs with a fused buffer."""
    return planguard.check(
        planguard.load(
            {
                "schema": "planguard.plan/1",
                "world_size": 2,
                "groups": {"side": {"ranks": [0, 1]}},
                "fusion": [{"id": "f", "members": ["g"], **policy}],
                "ranks": {rank: {"actions": actions} for rank, actions in ranks.items()},
            }
        ),
        model=model,
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("policy", POLICIES[:2])
def test_calls_of_one_program_that_change_places_are_out_of_round(model: str, policy: Item) -> None:
    """The implicit labels of one program say so."""
    """Return the verdict on programs with a fused buffer."""
    verdict = verdict_of({"0-1": program(call(), call())}, model, **policy)
    assert verdict.outcome is Outcome.MISMATCH


def test_negotiated_members_leave_the_calls_beside_them_their_identity() -> None:
    """A negotiated member meets none of them."""
    verdict = verdict_of({"0-1": program(call(), call())}, "gloo", coordination="negotiated")
    assert verdict.outcome is Outcome.MISMATCH


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("policy", POLICIES[:2])
def test_calls_of_two_programs_have_no_identity(model: str, policy: Item) -> None:
    """Programs that differ have no implicit labels: the round is not known."""
    other = [*program(call(), call()), {"op": "compute", "op_name": "x"}]
    verdict = verdict_of({"0": program(call(), call()), "1": other}, model, **policy)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "unlabeled all_reduce that may move" in verdict.reasons[0]


def test_what_disagrees_anyway_needs_no_identity() -> None:
    """Sizes that differ are a mismatch, whatever is whose."""
    other = [*program(call(), call(bytes=12)), {"op": "compute", "op_name": "x"}]
    verdict = verdict_of({"0": program(call(), call(bytes=12)), "1": other}, "gloo")
    assert verdict.outcome is Outcome.MISMATCH


@pytest.mark.parametrize("model", ["gloo", "mpi-sync"])
def test_a_chain_needs_no_identity(model: str) -> None:
    """Calls that cannot change places are matched by position."""
    other = [*program([call(), call()]), {"op": "compute", "op_name": "x"}]
    assert verdict_of({"0": program([call(), call()]), "1": other}, model).safe


def test_a_call_that_a_flush_may_pass_needs_one() -> None:
    """A flush is a call like others."""
    beside = call(group="world")
    other = [*program(beside), {"op": "compute", "op_name": "x"}]
    verdict = verdict_of({"0": program(beside), "1": other}, "gloo", membership="fixed")
    # The flush and the call differ in size: one order in which they meet is enough.
    assert verdict.outcome is Outcome.MISMATCH
    alike = call(group="world", bytes=8)
    other = [*program(alike), {"op": "compute", "op_name": "x"}]
    verdict = verdict_of({"0": program(alike), "1": other}, "gloo", membership="fixed")
    assert verdict.outcome is Outcome.UNKNOWN
