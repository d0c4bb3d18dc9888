from __future__ import annotations

import random

import pytest
from oracle.enumerator import Effort, OracleBudget, enumerate_plan
from oracle.generate import generate
from oracle.models import MODELS

import planguard

KEEP = {"wait", "repeat", "new_group", "drop", "exit", "event_wait", "event_record", "test"}
CHUNK = 20


def loosen(document, rng):
    """Put neighboring actions of some programs into blocks of open order."""
    programs = [*document["templates"].values()]
    programs += [rank["actions"] for rank in document["ranks"].values() if "actions" in rank]
    for program in programs:
        if len(program) < 2 or rng.random() < 0.3:
            continue
        start = rng.randrange(len(program) - 1)
        end = min(len(program), start + 2 + rng.randrange(2))
        body = program[start:end]
        if not any(item["op"] in KEEP | {"init", "destroy"} or "id" in item for item in body):
            for place, item in enumerate(body):
                item.setdefault("label", f"b{start}.{place}")
            program[start:end] = [{"op": "unordered", "body": body}]
    return document


@pytest.mark.parametrize("first", range(0, 200, CHUNK))
def test_open_orders_are_judged_as_the_enumerator_judges_them(first):
    """Where both decide a plan with open order, PlanGuard and the enumerator agree."""
    differences, decided = {}, 0
    for seed in range(first, first + CHUNK):
        document = loosen(generate(seed), random.Random(seed))
        plan = planguard.load(document)
        for model in MODELS:
            outcome = planguard.check(plan, model=model).outcome.value
            try:
                expected = enumerate_plan(document, model, Effort(20_000, 0, seed)).outcome
            except OracleBudget:
                continue
            if "UNKNOWN" in {outcome, expected}:
                continue
            decided += 1
            if outcome != expected:
                differences[seed, model] = (expected, outcome)
    assert not differences
    assert decided > CHUNK * 4
