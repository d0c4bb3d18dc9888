"""Plans that witnesses are executed on: rows of the plan, against the flat plan cut down."""

from __future__ import annotations

import random

import pytest
from oracle.generate import generate

from planguard.errors import PlanError
from planguard.execution.project import project
from planguard.execution.rerun import rerun
from planguard.options import MODEL_NAMES
from planguard.plan.flatten import flatten
from planguard.plan.format import read
from planguard.semantics.model import find_model, lenient, strict


def cut(flat, keep, kept):
    """A flat plan with some actions of some ranks, which are renumbered."""
    new = {old: at for at, old in enumerate(kept)}

    def moved(action):
        found = {k: v for k, v in action.items() if k not in ("after", "src")}
        found |= {k: new[action[k]] for k in ("peer", "root") if isinstance(action.get(k), int)}
        if "ops" in action and action["op"] == "batch":
            found["ops"] = [moved(member) for member in action["ops"]]
        return found

    groups = {
        name: {"ranks": [new[rank] for rank in group["ranks"] if rank in new]}
        for name, group in flat.get("groups", {}).items()
    }
    return {
        "schema": "planguard.plan/1",
        "world_size": len(kept),
        "groups": {name: group for name, group in groups.items() if group["ranks"]},
        "ranks": {
            str(new[old]): {
                "actions": [
                    moved(action)
                    for at, action in enumerate(flat["ranks"][str(old)]["actions"])
                    if (old, at) in keep
                ]
            }
            for old in kept
        },
    }


@pytest.mark.parametrize("first", range(0, 800, 100))
def test_a_projection_runs_like_the_flat_plan_cut_down(first):
    """Relative peers, families, loops and roots mean what they mean in the whole plan."""
    compared = 0
    for seed in range(first, first + 100):
        rng = random.Random(seed)
        try:
            plan = read(generate(seed))
            flat = flatten(plan)
        except PlanError:
            continue
        kept = sorted(rng.sample(range(plan.world_size), rng.randint(1, plan.world_size)))
        keep = {(r, at) for r in kept for at in range(plan.length(r)) if rng.random() < 0.6}
        model = find_model(rng.choice(MODEL_NAMES))
        scenario = rng.choice([strict(model), lenient(model, 4096)])
        try:
            wanted = rerun(read(cut(flat, keep, kept)), model, scenario)
        except (PlanError, KeyError):
            with pytest.raises((PlanError, KeyError)):
                rerun(project(plan, keep, kept).plan, model, scenario)
            continue
        found = rerun(project(plan, keep, kept).plan, model, scenario)
        assert (found.steps, found.blocked, found.cyclic) == (
            wanted.steps,
            wanted.blocked,
            wanted.cyclic,
        ), seed
        compared += 1
    assert compared > 10
