"""Blocks in which nothing is beside anything else: a plan with them is the plan without."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from campaign import test_fused_orders
from oracle import generate, opened
from oracle.answers import outcome_of
from oracle.enumerator import Effort, OracleBudget
from oracle.flushes import every_execution
from oracle.flushes import outcome_of as outcome_of_flushes
from oracle.models import MODELS
from oracle.program import OracleUnsupported

import planguard

Item = dict[str, Any]
CI, CAMPAIGN, STATES = 30, 1_000, 2_000
NAMES = list(MODELS)


def wrapped(program: list[Any], rng: random.Random, depth: int = 2) -> list[Any]:
    """Return a program of which some stretches are alone in a block."""
    first = rng.randint(0, len(program))
    last = rng.randint(first, len(program))
    inside = program[first:last]
    if depth and rng.random() < 0.5:
        inside = wrapped(inside, rng, depth - 1)
    if rng.random() < 0.3:
        block: Item = {"op": "unordered", "body": [inside]}
    else:
        idle: list[list[Any]] = [[] for _ in range(rng.choice([0, 1, 1, 2]))]
        idle.insert(rng.randint(0, len(idle)), inside)
        block = {"op": "threads", "threads": idle}
    return [*program[:first], block, *program[last:]]


def wrap(plan: Item, seed: int) -> Item:
    """Put stretches of some programs of a plan into blocks of their own."""
    rng = random.Random(f"alone {seed}")
    for program in opened.programs(plan):
        if rng.random() < 0.7:
            program[:] = wrapped(program, rng)
    return plan


def random_plan(seed: int) -> tuple[Item, Item]:
    """Return a plan with fused buffers, and the same with blocks that hold one stretch."""
    plans = (test_fused_orders.random_plan(seed) for _ in range(2))
    bare, blocked = ({"templates": {}, **plan} for plan in plans)
    return bare, wrap(blocked, seed)


@pytest.mark.timeout(3_600)  # 1,000 plans with --slow
def test_members_of_buffers_in_lone_blocks(request: pytest.FixtureRequest) -> None:
    """Threads of which one acts, and blocks of one chain, change no verdict on fused buffers; with
    --slow it is that of brute force over the plan without them.
    """
    is_slow = request.config.getoption("--slow")
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(CAMPAIGN if is_slow else CI):
        bare, blocked = random_plan(seed)
        model = test_fused_orders.model_of(bare, seed)
        expected = planguard.check(bare, model=model).outcome.value
        found = planguard.check(blocked, model=model).outcome.value
        if found == "UNKNOWN" != expected and not opened.has_threads(blocked):
            seen["not asked", expected] += 1  # a wait in a block of one chain, without threads
            continue
        assert found == expected, (seed, model, expected, found)
        seen["same", found] += 1
        if is_slow and found != "UNKNOWN":
            try:
                if len(every_execution(bare)) <= test_fused_orders.EXECUTIONS:
                    assert found == outcome_of_flushes(bare, model), (seed, model)
            except OracleUnsupported:
                continue
    assert len(seen) > 2


@pytest.mark.timeout(3_600)  # 1,000 plans with --slow
def test_calls_in_lone_blocks(request: pytest.FixtureRequest) -> None:
    """What is decided of other plans is what brute force says that follows the threads."""
    seen: Counter[str] = Counter()
    for seed in range(CAMPAIGN if request.config.getoption("--slow") else CI):
        plan, model = wrap(generate.generate(seed), seed), NAMES[seed % len(NAMES)]
        try:
            verdict = planguard.check(plan, model=model)
        except planguard.PlanError:
            seen["refused"] += 1
            continue
        found = verdict.outcome.value
        if verdict.unknown:
            seen["not asked"] += 1
            continue
        try:
            expected = outcome_of(plan, model, Effort(STATES, 0, seed))
        except (OracleBudget, OracleUnsupported):
            seen["not judged"] += 1
            continue
        seen[found] += 1
        assert found == expected or not verdict.complete, (seed, model, expected, found)
    assert len(seen) > 2
