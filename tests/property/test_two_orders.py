"""Threads whose orders are many: two orders that tell, against brute force over all states."""

from __future__ import annotations

import random
from typing import Any

import pytest
from oracle import opened
from property.compared import compare

import planguard
from planguard.reordering.threads import host

Item = dict[str, Any]
CI, CAMPAIGN, STATES = 40, 2_000, 3_000
NAMES = ["nccl", "nccl-eager", "nccl-lazy", "nccl-serialized"]


def random_plan(seed: int) -> Item:
    """Return a plan with threads: each of its own communicators, or racing for some."""
    rng = random.Random(f"two orders {seed}")
    draw = opened.threaded if seed % 3 else opened.raced
    while not opened.has_threads(plan := draw(rng.randrange(10**6), rng)):
        pass
    return plan


@pytest.mark.timeout(3_600)  # 2,000 plans with --slow
def test_what_two_orders_tell(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were two orders asked of every plan, whatever they tell is what brute force says."""
    told = 0
    ask = host._Search._from_two_orders

    def counted(search: Any) -> Any:
        nonlocal told
        found = ask(search)
        told += found is not None
        return found

    monkeypatch.setattr(host, "is_large", lambda *_: True)
    monkeypatch.setattr(host._Search, "_from_two_orders", counted)
    count = CAMPAIGN if request.config.getoption("--slow") else CI
    compare(range(count), random_plan, NAMES, STATES)
    assert told >= count // 20


@pytest.mark.parametrize(("order", "outcome"), [("free", "POTENTIAL_DEADLOCK"), ("one", "SAFE")])
def test_messages_beside_reductions_of_another_thread(order: str, outcome: str) -> None:
    """A pipeline of two stages, each of two ranks, that reduces in another thread: rank 0 may
    launch the first reduction before the first message while rank 1 does the reverse, whose peer
    then waits the same way round the ring. In one thread, one after the other, nothing can.
    """
    steps = 12
    ranks = {}
    for rank in range(4):
        op, peer = ("send", rank + 2) if rank < 2 else ("recv", rank - 2)
        passes = [{"op": op, "peer": peer, "bytes": 8, "label": f"p{k}"} for k in range(steps)]
        group = f"dp{rank // 2}"
        reduces = [
            {"op": "all_reduce", "group": group, "bytes": 8, "label": f"r{k}"} for k in range(steps)
        ]
        threads = [passes, reduces] if order == "free" else [[*passes, *reduces]]
        ranks[str(rank)] = {"actions": [{"op": "threads", "threads": threads}]}
    plan = {
        "schema": "planguard.plan/1", "world_size": 4, "ranks": ranks,
        "groups": {"dp0": {"ranks": [0, 1]}, "dp1": {"ranks": [2, 3]}},
    }  # fmt: skip
    verdict = planguard.check(plan, model="nccl-lazy")
    assert (verdict.outcome.value, verdict.complete) == (outcome, True)
    if outcome != "SAFE":
        assert verdict.errors[0].witness is not None
        assert verdict.errors[0].certainty == "some-execution"
