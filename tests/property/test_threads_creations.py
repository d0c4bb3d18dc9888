"""Threads that create communicators and groups, against brute force over all states."""

from __future__ import annotations

import random
from typing import Any

import pytest
from oracle import opened
from oracle.combined import chains_of
from oracle.models import MODELS
from property.compared import compare

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


@pytest.mark.timeout(3_600)  # 1,500 plans with --slow
def test_creations_in_threads(request: pytest.FixtureRequest) -> None:
    """Where a thread makes a group or a communicator, what is decided is what brute force over all
    states says.
    """
    count = CAMPAIGN if request.config.getoption("--slow") else CI
    seen = compare(range(count), random_plan, NAMES, STATES)
    assert sum(count for (_, found), count in seen.items() if found != "UNKNOWN") > 0.6 * count
