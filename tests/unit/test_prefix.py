"""Communicators that are created before all open order do not undo the exact routes."""

from __future__ import annotations

import random

import pytest
from oracle.answers import outcome_of

import planguard as pg

NCCL = ["nccl", "nccl-lazy", "nccl-eager", "nccl-serialized"]


def call(group, rng, name):
    """One collective, synchronous or not, with its wait where it is not."""
    one = {"op": "all_reduce", "group": group, "bytes": 4, "label": name}
    if rng.random() < 0.4:
        return [{**one, "async": True, "work": name}, {"op": "wait", "work": name}]
    return [one]


def random_plan(seed):
    """Two or three ranks that create or first use their groups, then run blocks of open order."""
    rng = random.Random(seed)
    world = rng.choice([2, 3])
    groups = {"A": list(range(world)), "B": list(range(world)), "C": [0, 1]}
    prefix = [
        {"op": "init", "group": g}
        if rng.random() < 0.7
        else {"op": "all_reduce", "group": g, "bytes": 4, "label": f"first {g}"}
        for g in ("A", "B")
    ]
    blocks = []
    for number in range(rng.choice([1, 1, 2])):
        chains = [
            [leaf for k in range(rng.choice([1, 1, 2])) for leaf in call(g, rng, f"{g}{number}{k}")]
            for g in rng.sample(["A", "B"], rng.choice([1, 2, 2]))
        ]
        blocks.append({"op": "unordered", "body": chains})
        if rng.random() < 0.4:
            blocks += call(rng.choice("AB"), rng, f"between{number}")
    ranks = {}
    for rank in range(world):
        mine = list(prefix)
        if rng.random() < 0.1:
            mine.reverse()
        ranks[str(rank)] = {"actions": [*mine, *blocks]}
    return {
        "schema": "planguard.plan/1",
        "world_size": world,
        "groups": {name: {"ranks": members} for name, members in groups.items()},
        "ranks": ranks,
    }


@pytest.mark.parametrize("seed", range(25))
def test_random_plans_with_a_prefix_against_the_enumerator(seed):
    """Created or used first, in one order or in two: the outcomes of the enumerator."""
    document = random_plan(seed)
    for model in NCCL:
        verdict = pg.check(document, model=model)
        expected = outcome_of(document, model)
        if "UNKNOWN" not in {verdict.outcome.value, expected}:
            assert verdict.outcome.value == expected, (model, document)


@pytest.mark.parametrize("model", NCCL)
def test_what_is_created_first_leaves_the_exact_route(model):
    """Forty windows of two groups behind their creation: no enumeration, 2^80 orders."""
    body = [{"op": "init", "group": g} for g in "AB"]
    for k in range(40):
        calls = [{"op": "all_reduce", "group": g, "bytes": 4, "label": f"{g}{k}"} for g in "AB"]
        body.append({"op": "unordered", "body": calls})
    document = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {g: {"ranks": [0, 1]} for g in "AB"},
        "ranks": {"0-1": {"actions": body}},
    }
    verdict = pg.check(document, model=model)
    assert verdict.outcome is pg.Outcome.POTENTIAL_DEADLOCK, verdict
    assert verdict.evidence.route == ("weak-order",)
    ordered = [
        [{"op": "unordered", "body": [item["body"]]} if item["op"] == "unordered" else item]
        for item in body
    ]
    document["ranks"] = {"0-1": {"actions": [one for items in ordered for one in items]}}
    assert pg.check(document, model=model).safe


@pytest.mark.parametrize("model", NCCL)
def test_a_prefix_that_is_not_closed_decides(model):
    """A creation in opposite orders, or a handle that crosses the cut, is not taken off."""
    block = {
        "op": "unordered",
        "body": [
            {"op": "all_reduce", "group": "A", "bytes": 4, "label": "a"},
            {"op": "all_reduce", "group": "B", "bytes": 4, "label": "b", "async": True},
        ],
    }
    first = [{"op": "init", "group": g} for g in "AB"]
    document = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {g: {"ranks": [0, 1]} for g in "AB"},
        "ranks": {"0": {"actions": [*first, block]}, "1": {"actions": [*first[::-1], block]}},
    }
    verdict = pg.check(document, model=model)
    assert verdict.outcome.value == outcome_of(document, model)
    start = {"op": "all_reduce", "bytes": 4, "label": "w", "async": True, "work": "w"}
    crossing = [start, *first, block, {"op": "wait", "work": "w"}]
    document["ranks"] = {"0-1": {"actions": crossing}}
    verdict = pg.check(document, model=model)
    expected = outcome_of(document, model)
    assert verdict.outcome.value in {expected, "UNKNOWN"}
