"""Fixed plans: what an open plan becomes, where its actions come from, the runs of witnesses."""

from __future__ import annotations

import json
import pickle
import sys

import planguard
from planguard.plan.flatten import flatten
from planguard.replay.settle import playable, settle


def act(op, **fields):
    """An action."""
    return {"op": op, **fields}


def document(*programs, **more):
    """A plan of one program for each rank."""
    ranks = {str(rank): {"actions": list(body)} for rank, body in enumerate(programs)}
    return {"schema": "planguard.plan/1", "world_size": len(programs), "ranks": ranks, **more}


def reduce(label, **fields):
    """An all_reduce of four bytes."""
    return act("all_reduce", bytes=4, label=label, **fields)


CROSSED = document(
    [act("unordered", body=[act("send", peer=1, bytes=4), act("recv", peer=1, bytes=4)])],
    [act("choice", branches=[[act("recv", peer=0, bytes=4), act("send", peer=0, bytes=4)], []])],
)


def witness_of(document, model="gloo"):
    """A plan and the first witness of its verdict."""
    plan = planguard.load(document)
    verdict = planguard.check(plan, model=model)
    return plan, verdict, next(f.witness for f in verdict.findings if f.witness is not None)


def test_a_witness_of_an_open_plan_holds_the_plan_that_was_run():
    """Its run is a plan of fixed order whose actions are those of the open plan that it names."""
    plan, _, witness = witness_of(CROSSED)
    fixed = witness.fixed.fixed
    for rank in range(2):
        for at, origin in enumerate(fixed.origin[rank]):
            assert fixed.plan.action_at(rank, at).op == plan.action_at(rank, origin).op
    moved = {(rank, fixed.origin[rank][at]) for rank, at in witness.fixed.witness.actions}
    assert moved == set(witness.actions)


def test_the_run_behind_a_witness_is_in_memory_only():
    """It is not in the result, plays no part in equality, and a pickled witness is without it."""
    _, verdict, witness = witness_of(CROSSED)
    assert "fixed" not in json.dumps(verdict.to_json()["findings"][0]["witness"])
    again = pickle.loads(pickle.dumps(witness))  # noqa: S301  made here
    assert again == witness
    assert again.fixed is None


def test_a_plan_made_of_rows_is_pickled_as_its_text():
    """It was never read from text, and is the same plan on the other side."""
    _, _, witness = witness_of(CROSSED)
    made = witness.fixed.fixed.plan
    assert flatten(pickle.loads(pickle.dumps(made))) == flatten(made)  # noqa: S301  made here


def test_what_is_played_needs_no_second_check(monkeypatch):
    """A witness in hand is played as it was found; one that was read is found again by a check."""
    plan, _, witness = witness_of(CROSSED)
    read = pickle.loads(pickle.dumps(witness))  # noqa: S301  made here
    found = settle(plan, read, "gloo")
    monkeypatch.setattr(sys.modules["planguard.replay.settle"], "check_plan", None)
    way = settle(plan, witness, "gloo")
    assert way == playable(plan, witness) == found


def test_a_witness_of_another_plan_is_not_played_as_its_own():
    """Whose run a witness holds is compared, so a plan that differs is checked by itself."""
    _, _, witness = witness_of(CROSSED)
    other = json.loads(json.dumps(CROSSED).replace('"bytes": 4', '"bytes": 8'))
    way = settle(planguard.load(other), witness, "gloo")
    assert {a["bytes"] for body in way.flat["ranks"].values() for a in body["actions"]} == {8}


def test_the_run_of_a_fixed_plan_is_the_plan_itself():
    """Where nothing is open, nothing was made of anything."""
    plan, _, witness = witness_of(
        document([act("recv", peer=1, bytes=4)], [act("recv", peer=0, bytes=4)])
    )
    assert witness.fixed is None
    assert playable(plan, witness).flat == flatten(plan)
