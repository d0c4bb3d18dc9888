"""Threads whose messages compete, against brute force over all states."""

from __future__ import annotations

import random
from typing import Any

import pytest
from oracle import opened
from oracle.combined import chains_of
from property.compared import compare

Item = dict[str, Any]
CI, CAMPAIGN, STATES = 24, 1_500, 3_000
MODELS = ("gloo", "mpi-eager", "mpi-sync", "gloo-detail")


def random_plan(seed: int) -> Item:
    """Return a plan with threads in which receives take any message, or waits any handle."""
    rng = random.Random(f"threads and messages {seed}")
    while not opened.has_threads(plan := opened.raced(seed, rng)):
        pass
    for rank in plan["ranks"].values():
        for chain in chains_of(rank["actions"]):
            _widen(chain, rng)
        if rng.random() < 0.3:
            _wait_for_one(rank["actions"], rng)
    return plan


def _widen(chain: list[Any], rng: random.Random) -> None:
    for item in list(chain):
        if item["op"] not in {"recv", "irecv"}:
            continue
        if rng.random() < 0.7:
            item["peer"] = "any"
        if rng.random() < 0.2:
            item["tag"] = "any"
        if rng.random() < 0.1:
            look = {key: item[key] for key in ("peer", "tag", "group") if key in item}
            chain.insert(chain.index(item), {"op": "probe", **look})


def _wait_for_one(actions: list[Any], rng: random.Random) -> None:
    """Let waits of threads come behind them, after one of their handles was waited for."""
    late: list[str] = []
    for chain in chains_of(actions):
        for item in [one for one in chain if one["op"] == "wait"]:
            if rng.random() < 0.7:
                chain.remove(item)
                late.append(item["work"])
    if len(late) > 1:
        actions.append({"op": "wait", "work": late, "mode": rng.choice(["any", "some"])})
    if late:
        actions.append({"op": "wait", "work": late})


@pytest.mark.timeout(3_600)  # 1,500 plans with --slow
def test_messages_of_threads(request: pytest.FixtureRequest) -> None:
    """Where threads call and messages compete, or a wait is for one of several handles, what is
    decided is what brute force over all states says.
    """
    count = CAMPAIGN if request.config.getoption("--slow") else CI
    seen = compare(range(count), random_plan, MODELS, STATES)
    assert sum(count for (_, found), count in seen.items() if found != "UNKNOWN") > 0.6 * count
