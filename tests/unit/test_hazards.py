"""Handles in flight: what ends them, and how sure that is. No outcome depends on it."""

from __future__ import annotations

import pytest

import planguard as pg


def start(work, **more):
    """One asynchronous all_reduce."""
    return {"op": "all_reduce", "bytes": 4, "async": True, "work": work, **more}


def findings(*actions, model):
    """Codes and severities of hazards of two ranks that run the same program."""
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "ranks": {"0-1": {"actions": [*actions]}},
    }
    verdict = pg.check(plan, model=model)
    assert verdict.safe, verdict
    return {(f.code, f.severity) for f in verdict.findings if f.code.startswith("PG3")}


SYNC = {"op": "host_sync"}
READ = {"op": "compute", "reads": ["x"]}


@pytest.mark.parametrize(("model", "ends"), [("nccl", True), ("gloo", False), ("mpi-sync", False)])
def test_a_host_synchronization_ends_what_is_on_streams(model, ends):
    """Where operations are kernels it waits for all of them; gloo and MPI know no stream."""
    assert findings(start("a"), SYNC, model=model) == (set() if ends else {("PG301", "error")})
    left = findings(start("a", writes=["x"]), SYNC, READ, model=model)
    assert left == (set() if ends else {("PG301", "error"), ("PG304", "error")})


def test_a_stream_of_its_own_is_not_all_of_them():
    """The stream of the communicator is not the one that is synchronized."""
    assert findings(start("a"), {**SYNC, "stream": "main"}, model="nccl") == {("PG301", "error")}


@pytest.mark.parametrize("mode", ["any", "some"])
@pytest.mark.parametrize("model", ["gloo", "mpi-sync"])
def test_a_wait_for_one_of_several_is_as_sure_as_it_is(mode, model):
    """One of two may be left: a warning. Asked twice, or for one alone: nothing is left."""
    one = {"op": "wait", "work": ["a", "b"], "mode": mode}
    assert findings(start("a"), start("b"), one, model=model) == {("PG301", "warning")}
    assert findings(start("a"), start("b"), one, one, model=model) == set()
    alone = {"op": "wait", "work": ["a"], "mode": mode}
    assert findings(start("a"), alone, model=model) == set()


def test_what_nothing_waits_for_is_an_error_and_the_plan_is_safe():
    """PG301 is about data: the outcome stays SAFE, and the error is among ``verdict.errors``."""
    for model in ("gloo", "nccl", "mpi-sync"):
        assert findings(start("a"), model=model) == {("PG301", "error")}


def cut(*places):
    """The entry of a recording that does not say what ranks did behind their last actions."""
    return {
        "kind": "cut-short",
        "message": "cut",
        "direction": "under",
        "scope": "onward",
        "actions": [list(place) for place in places],
    }


@pytest.mark.parametrize(
    ("entries", "blamed"),
    [
        ([], {(0, 1)}),
        ([cut((0, 0))], {(1,)}),
        ([cut((0, 0), (1, 0))], set()),
        ([{**cut((0, 0)), "direction": "over"}], {(0, 1)}),
        ([{**cut(), "scope": "plan"}], {(0, 1)}),
    ],
)
def test_what_may_come_behind_a_cut_is_not_missing(entries, blamed):
    """A rank whose recording ends early is not blamed for a wait that may follow."""
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "ranks": {"0-1": {"actions": [start("a")]}},
        "approximations": [{k: v for k, v in one.items() if v != []} for one in entries],
    }
    verdict = pg.check(plan, model="gloo")
    assert {f.ranks for f in verdict.findings if f.code == "PG301"} == blamed


def test_what_was_dropped_or_read_before_a_cut_is_still_wrong():
    """What happened in front of the cut happened."""
    actions = [start("a", writes=["x"]), READ, {"op": "drop", "work": "a"}]
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "ranks": {"0-1": {"actions": actions}},
        "approximations": [cut((0, 2), (1, 2))],
    }
    verdict = pg.check(plan, model="gloo")
    assert {"PG304", "PG308"} <= {f.code for f in verdict.findings}
