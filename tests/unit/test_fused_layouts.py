"""Members of fused buffers that have other sizes on two ranks, in sums that are equal."""

from __future__ import annotations

import json
from typing import Any

import pytest

import planguard
from planguard.certificate.flushes import programs
from planguard.verdict import Outcome

Item = dict[str, Any]
MODELS = ("gloo", "gloo-detail", "nccl", "nccl-lazy", "mpi-sync", "mpi-pg")
POLICIES = (
    {},
    {"membership": "fixed"},
    {"membership": "fixed", "launch": "ordered"},
    {"coordination": "rank0-broadcast", "membership": "fixed"},
    {"coordination": "negotiated"},
)


def plan_of(first: tuple[int, int], second: tuple[int, int], policy: Item) -> Item:
    """Return a plan of two ranks with two members of the given sizes."""
    ranks = []
    for sizes in (first, second):
        body = [
            {"op": "all_reduce", "bytes": size, "id": name, "label": name, "async": True}
            | {"work": name}
            for name, size in zip(("a", "b"), sizes, strict=True)
        ]
        block = {"op": "unordered", "body": body}
        ranks.append({"actions": [block, {"op": "wait", "work": ["a", "b"]}]})
    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "fusion": [{"id": "f", "members": ["a", "b"], **policy}],
        "ranks": {str(rank): program for rank, program in enumerate(ranks)},
    }


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_flush_has_a_layout_like_a_coalesced_call(model: str, policy: Item) -> None:
    """Equal sums of other sizes add up what does not belong together."""
    verdict = planguard.check(planguard.load(plan_of((4, 8), (8, 4), policy)), model=model)
    assert verdict.outcome is Outcome.MISMATCH


def test_the_finding_says_the_sizes() -> None:
    """Both layouts are named."""
    verdict = planguard.check(planguard.load(plan_of((4, 8), (8, 4), {})), model="gloo")
    assert "a (4 B)" in str(verdict.findings)
    assert "a (8 B)" in str(verdict.findings)


@pytest.mark.parametrize("policy", POLICIES[1:3], ids=str)
def test_equal_layouts_agree(policy: Item) -> None:
    """The same sizes on both ranks are what they were."""
    verdict = planguard.check(planguard.load(plan_of((4, 8), (4, 8), policy)), model="gloo")
    assert verdict.safe


def test_the_checker_of_certificates_compares_layouts() -> None:
    """What it makes of both ranks does not agree, though the sums do."""
    flushes = [
        json.loads(one["label"])
        for ways in programs(plan_of((4, 8), (8, 4), POLICIES[2]))
        for one in ways[0]
        if one["op"] == "all_reduce"
    ]
    assert flushes == [[["a", 4], ["b", 8]], [["a", 8], ["b", 4]]]
