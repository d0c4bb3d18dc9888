"""Receives of any tag from one sender: given the tag of what they take, nothing else is decided."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from oracle.enumerator import enumerate_plan

from planguard.api import check
from planguard.capture.mpi.tags import settle_tags


def program(rng: random.Random, sends: list[int]) -> list[dict[str, Any]]:
    """A receiver of some of them, by their tags or by any, blocking or not."""
    actions: list[dict[str, Any]] = []
    for number in range(len(sends) + rng.choice((0, 0, 0, 1, -1))):
        tag = rng.choice([*sends, "any", "any"]) if sends else "any"
        receive = {"op": "recv", "peer": 0, "tag": tag, "bytes": 8}
        if rng.random() < 0.5:
            receive |= {"op": "irecv", "work": f"w{number}"}
        actions.append(receive)
    rest = [{"op": "wait", "work": one["work"]} for one in actions if "work" in one]
    rng.shuffle(rest)
    return actions + rest


def plan_of(rng: random.Random) -> dict[str, Any]:
    """One sender and one receiver, who may answer."""
    tags = [rng.randrange(3) for _ in range(rng.randint(1, 4))]
    sends = [{"op": "send", "peer": 1, "tag": tag, "bytes": 8} for tag in tags]
    first, second = sends, program(rng, tags)
    if rng.random() < 0.5:
        first.insert(
            rng.randrange(len(first) + 1), {"op": "recv", "peer": 1, "tag": "any", "bytes": 4}
        )
        second.insert(
            rng.randrange(len(second) + 1), {"op": "send", "peer": 0, "tag": 5, "bytes": 4}
        )
    ranks = {"0": {"actions": first}, "1": {"actions": second}}
    return {"schema": "planguard.plan/1", "world_size": 2, "ranks": ranks}


@pytest.mark.parametrize("model", ["mpi-eager", "mpi-sync"])
def test_the_answer_is_that_of_every_meeting(model: str) -> None:
    """The search over who meets whom, the enumerator, and the settled plan say the same."""
    rng = random.Random(24)
    seen: dict[str, int] = {}
    for _ in range(150):
        plan = plan_of(rng)
        settled = copy.deepcopy(plan)
        settle_tags({int(rank): one["actions"] for rank, one in settled["ranks"].items()})
        assert '"any"' not in str(settled).replace("'", '"')
        outcome = check(plan, model=model, budget=20).outcome.value
        assert check(settled, model=model).outcome.value == outcome, plan
        assert enumerate_plan(settled, model).outcome == outcome, plan
        seen[outcome] = seen.get(outcome, 0) + 1
    assert len(seen) > 1
    assert seen["SAFE"] > 10


def test_what_competes_stays_open() -> None:
    """A receive from any sender may take the message that the next one is after."""
    send = {"op": "send", "peer": 1, "tag": 3, "bytes": 8}
    takes = [
        {"op": "recv", "peer": "any", "tag": "any", "bytes": 8},
        {"op": "recv", "peer": 0, "tag": "any", "bytes": 8},
    ]
    settle_tags({0: [send, dict(send)], 1: takes})
    assert [action["tag"] for action in takes] == ["any", "any"]
    elsewhere = [{**takes[1], "group": "a"}]
    settle_tags({0: [{**send, "group": "a"}], 1: [takes[0], *elsewhere]})
    assert elsewhere[0]["tag"] == 3
