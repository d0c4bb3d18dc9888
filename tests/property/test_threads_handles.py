"""Handles that one thread starts and another one waits for, against the enumerator."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from oracle.answers import outcome_of
from oracle.enumerator import Effort, OracleBudget
from oracle.models import MODELS
from oracle.program import OracleUnsupported

import planguard

Item = dict[str, Any]
CI, CAMPAIGN, STATES = 90, 3_000, 3_000
NAMES = list(MODELS)


def random_plan(seed: int) -> Item:
    """Return a plan of two ranks whose calls are alike; some stand in two threads."""
    rng = random.Random(f"handles {seed}")
    groups = {"world": [0, 1], "side": [0, 1], "other": [0, 1]}
    calls: list[Item] = []
    for number in range(rng.choice([2, 3, 3, 4])):
        call: Item = {"op": rng.choice(["all_reduce", "all_reduce", "all_gather"]), "bytes": 8}
        call |= {"group": rng.choice(list(groups)), "label": f"x{number}"}
        if rng.random() < 0.25:
            call = {"op": "send", "peer": 1, "bytes": 8, "tag": number, "label": f"x{number}"}
        if rng.random() < 0.6:
            call |= {"work": f"h{number}"}
        calls.append(call)
    ranks = {}
    for rank in (0, 1):
        order = list(calls)
        if rng.random() < 0.3:
            order.insert(rng.randrange(len(order)), order.pop(rng.randrange(len(order))))
        mine = [of_rank(call, rank) for call in order]
        ranks[str(rank)] = {"actions": laid_out(mine, rng)}
    named = {name: {"ranks": who} for name, who in groups.items() if name != "world"}
    return {"schema": "planguard.plan/1", "world_size": 2, "groups": named, "ranks": ranks}


def of_rank(call: Item, rank: int) -> Item:
    """Return a call as one rank makes it."""
    found = dict(call)
    if call["op"] == "send":
        op = "send" if rank == 0 else "recv"
        found |= {"op": f"i{op}" if "work" in call else op, "peer": 1 - rank}
    elif "work" in call:
        found["async"] = True
    return found


def laid_out(calls: list[Item], rng: random.Random) -> list[Item]:
    """Return calls in one or two threads, with each wait somewhere behind its call."""
    threads: list[list[Item]] = [[], []]
    is_one = rng.random() < 0.25
    for call in calls:
        thread = 0 if is_one or "work" in call or rng.random() < 0.3 else 1
        threads[thread].append(call)
        if "work" in call:
            threads[0 if is_one else rng.choice([0, 1, 1])].append(
                {"op": "wait", "work": call["work"]}
            )
    if not is_one and rng.random() < 0.4:  # one wait for all that another thread starts
        waits = [one for one in threads[1] if one["op"] == "wait"]
        if len(waits) > 1:
            left = [one for one in threads[1] if one["op"] != "wait"]
            joined = {"op": "wait", "work": [one["work"] for one in waits]}
            left.insert(rng.randint(0, len(left)), joined)
            threads[1] = left
    return threads[0] if is_one else [{"op": "threads", "threads": threads}]


def compare(seeds: range) -> Counter[tuple[str, str]]:
    """Return how often which outcome met which; they are equal where both are known."""
    seen = Counter[tuple[str, str]]()
    for seed in seeds:
        plan, model = random_plan(seed), NAMES[seed % len(NAMES)]
        try:
            given = planguard.load(plan)
        except planguard.PlanError:
            seen["refused", ""] += 1
            continue
        verdict = planguard.check(given, model=model)
        found = verdict.outcome.value
        if verdict.unknown:
            seen["", found] += 1
            continue
        try:
            expected = outcome_of(plan, model, Effort(STATES, 0))
        except (OracleBudget, OracleUnsupported):
            seen["passed over", found] += 1
            continue
        is_less = verdict.unsafe and not verdict.complete
        assert found == expected or is_less, (seed, model, expected, found)
        seen[expected, found] += 1
    return seen


@pytest.mark.timeout(1_800)  # 3,000 plans with --slow
def test_waits_for_handles_of_other_threads(request: pytest.FixtureRequest) -> None:
    """A wait in another thread stands until the call was made, and then until it is done."""
    seen = compare(range(CAMPAIGN if request.config.getoption("--slow") else CI))
    print(seen)
    judged = Counter[str]()
    for (expected, found), n in seen.items():
        if expected == found:
            judged[found] += n
    assert min(judged[name] for name in ("SAFE", "DEADLOCK")) > sum(judged.values()) // 10
