"""Threads that create communicators and groups, against brute force over all states."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from oracle import opened
from oracle.answers import outcome_of
from oracle.combined import chains_of
from oracle.enumerator import Effort, OracleBudget
from oracle.models import MODELS
from oracle.program import OracleUnsupported

import planguard

Item = dict[str, Any]
CI, CAMPAIGN, STATES = 27, 1_500, 3_000
NAMES = [name for name in MODELS if name != "mpi-pg"]


def random_plan(seed: int) -> Item:
    """Return a plan with threads in which groups are made and communicators created."""
    rng = random.Random(f"threads and creations {seed}")
    while not opened.has_threads(plan := opened.raced(seed, rng)):
        pass
    groups = {"world": list(range(plan["world_size"]))}
    groups |= {name: spec["ranks"] for name, spec in plan["groups"].items()}
    for name, members in groups.items():
        is_made, is_created = name != "world" and rng.random() < 0.6, rng.random() < 0.4
        for rank in members:
            program = plan["ranks"][str(rank)]["actions"]
            chains = list(chains_of(program))
            if is_made and rng.random() < 0.95:
                users = [one for one in chains[1:] if any(i.get("group") == name for i in one)]
                inside = len(users) == 1 and rng.random() < 0.7
                chain = users[0] if inside else program if rng.random() < 0.9 else chains[-1]
                chain.insert(0, {"op": "new_group", "group": name})
            if is_created and rng.random() < 0.9:
                chain = rng.choice(chains)
                chain.insert(rng.randint(0, len(chain)), {"op": "init", "group": name})
    return plan


def compare(seeds: range) -> Counter[tuple[str, str]]:
    """Check random plans, a model each; return how often which outcome met which."""
    seen: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        plan, model = random_plan(seed), NAMES[seed % len(NAMES)]
        try:
            found = planguard.check(plan, model=model)
        except planguard.PlanError:  # a group that is used before it is made
            seen["refused", "UNKNOWN"] += 1
            continue
        outcome = found.outcome.value
        if found.unknown:
            seen["not asked", outcome] += 1
            continue
        try:
            expected = outcome_of(plan, model, Effort(STATES, 0, seed))
        except (OracleBudget, OracleUnsupported):
            seen["not judged", outcome] += 1
            continue
        seen[expected, outcome] += 1
        assert outcome == expected or not found.complete, (seed, model, expected, outcome)
    return seen


@pytest.mark.timeout(3_600)  # 1,500 plans with --slow
def test_creations_in_threads(request: pytest.FixtureRequest) -> None:
    """Where a thread makes a group or a communicator, what is decided is what brute force over all
    states says.
    """
    count = CAMPAIGN if request.config.getoption("--slow") else CI
    seen = compare(range(count))
    assert sum(count for (_, found), count in seen.items() if found != "UNKNOWN") > 0.6 * count
