"""What a witness says of what was picked: who met whom, and what was flushed together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import planguard
from planguard.replay.schedule import decode_witness, parse_schedule
from planguard.result import dumps, verdict_from_json
from planguard.verdict import Flushed, Met

CHOICES = Path(__file__).resolve().parents[1] / "corpus" / "choices"


def witnesses(document: Any, model: str) -> list[Any]:
    """Give the JSON witnesses of the errors of a plan, after reading them back."""
    verdict = planguard.check(document, model=model)
    result = json.loads(dumps(verdict.to_json()))
    again = verdict_from_json(result)
    assert [f.witness for f in again.findings] == [f.witness for f in verdict.findings]
    for finding in verdict.errors:
        assert finding.witness is not None
        items = parse_schedule(finding.witness.encoded)
        assert set(items) <= set(finding.witness.actions)
        assert decode_witness(finding.witness.encoded, None).encoded == finding.witness.encoded
    return [finding["witness"] for finding in result["findings"] if finding["severity"] == "error"]


STEAL = {
    "schema": "planguard.plan/1",
    "world_size": 3,
    "ranks": {
        "0": {"actions": [{"op": "recv", "peer": "any", "bytes": 4},
                          {"op": "recv", "peer": 1, "bytes": 4}]},
        "1-2": {"actions": [{"op": "send", "peer": 0, "bytes": 4}]},
    },
}  # fmt: skip


def test_a_witness_says_who_met_whom():
    """The receive from anybody took the message that the second one waits for."""
    for witness in witnesses(STEAL, "gloo"):
        assert witness["matches"] == [{"receive": [0, 0], "send": [1, 0]}]
        assert "flushes" not in witness
    (first, *_) = planguard.check(STEAL, model="gloo").errors
    assert first.witness.matches == (Met((0, 0), (1, 0)),)


def test_matches_inside_branches_have_the_places_of_the_plan():
    """The places are those of the plan with its branches, not of one combination."""
    taken = {"op": "choice", "name": "c", "branches": [[{"op": "compute"}], []]}
    ranks = {**STEAL["ranks"], "0": {"actions": [taken, *STEAL["ranks"]["0"]["actions"]]}}
    for witness in witnesses({**STEAL, "ranks": ranks}, "gloo"):
        (met,) = witness["matches"]
        assert met["send"] == [1, 0]
        plan = planguard.load({**STEAL, "ranks": ranks})
        assert plan.action_at(*met["receive"]).op == "recv"


def member(name: str) -> dict[str, Any]:
    """Give a member of a fused buffer."""
    return {"op": "all_reduce", "bytes": 8, "async": True, "id": name, "label": name, "work": name}


def fused(**policy: Any) -> dict[str, Any]:
    """Give a plan whose two ranks may flush three members in different orders."""
    program = [
        {"op": "unordered", "body": [member("a"), member("b"), member("c")]},
        {"op": "wait", "work": ["a", "b", "c"]},
    ]
    buffer = {"id": "grads", "group": "world", "members": ["a", "b", "c"], "cap_bytes": 16}
    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "templates": {"t": program},
        "fusion": [{**buffer, **policy}],
        "ranks": {"0-1": {"template": "t"}},
    }


@pytest.mark.parametrize("membership", ["fixed", "fill"])
def test_a_witness_says_what_is_flushed_together(membership):
    """Every flush names its members by their actions; two ranks differ in them."""
    (witness,) = witnesses(fused(membership=membership), "gloo")
    by_rank: dict[int, list[list[int]]] = {0: [], 1: []}
    for flush in witness["flushes"]:
        assert flush["buffer"] == "grads"
        by_rank[flush["rank"]].append(flush["actions"])
    for rank in (0, 1):  # all three members, each once
        plan = planguard.load(fused())
        ids = [plan.action_at(rank, at).id for flush in by_rank[rank] for at in flush]
        assert sorted(ids) == ["a", "b", "c"]
    assert by_rank[0] != by_rank[1]
    (error,) = planguard.check(fused(membership=membership), model="gloo").errors
    assert isinstance(error.witness.flushes[0], Flushed)


def test_other_witnesses_have_neither():
    """Where nothing competes and nothing is fused the fields are left out."""
    verdict = planguard.check(
        {
            "schema": "planguard.plan/1",
            "world_size": 2,
            "ranks": {"0": {"actions": [{"op": "barrier"}]}, "1": {"actions": []}},
        }
    )
    for finding in verdict.to_json()["findings"]:
        assert not {"matches", "flushes"} & (finding["witness"] or {}).keys()
