"""The verdict of an edit is the verdict of the edited plan, whichever way it was found."""

from __future__ import annotations

import copy
import random
from collections import Counter

import pytest
from oracle.generate import generate
from property.test_metamorphic import flat

import planguard
from planguard import Guard, PlanError
from planguard.guard import Change
from planguard.options import MODEL_NAMES

CHUNK = 40
STARTS = range(0, 160, CHUNK)
COVERED = ("gloo", "nccl", "nccl-eager", "nccl-serialized", "mpi-eager", "mpi-sync")


def answer(check, *arguments):
    """Outcome and codes of a check, or the code of the refusal."""
    try:
        verdict = check(*arguments)
    except PlanError as error:
        return error.code
    assert verdict.safe is (verdict.outcome is planguard.Outcome.SAFE)
    assert verdict.unsafe is (verdict.outcome.severity > planguard.Outcome.UNKNOWN.severity)
    return verdict.outcome, [finding.code for finding in verdict.findings]


def edited_answer(checker, change, model):
    """What a full check says of the edited plan, read again."""
    return answer(lambda: planguard.check(checker.edited(change), model=model))


def any_change(rng, document, rank):
    """A random edit of one rank: any kind, any place, sometimes wrong."""
    actions = document["ranks"][str(rank)]["actions"]
    size = len(actions)
    if not size:
        return Change.insert(rank, 0, {"op": "barrier"})
    one, two = rng.randrange(size), rng.randrange(size)
    kind = rng.randrange(8)
    if kind == 0:
        return Change.swap(rank, one, two)
    if kind == 1:
        return Change.swap(rank, one, min(size - 1, one + 1))
    if kind == 2:
        return Change.move(rank, one, two)
    if kind == 3:
        return Change.delete(rank, one)
    if kind == 4:
        return Change(rank, one, one, (two,))
    if kind == 5:
        low, high = sorted((one, two))
        return Change(rank, low, high + 1, tuple(rng.sample(range(low, high + 1), high + 1 - low)))
    new = copy.deepcopy(actions[two])
    if kind == 6:
        field = rng.choice(["label", "count", "bytes", "reduce_op"])
        if field in new:
            new[field] = {"label": "other", "reduce_op": "max"}.get(field, 8)
        return Change.replace(rank, two, new)
    return Change.insert(rank, one, new)


def flat_safe(seed, model):
    """A random plan that is safe under a model, in its flat form, or None."""
    document = flat(seed)
    verdict = planguard.check(document, model=model)
    return document if verdict.safe else None


@pytest.mark.parametrize("first", STARTS)
@pytest.mark.parametrize("models", [MODEL_NAMES, COVERED])
def test_edits_of_random_plans(first, models):
    """Outcome, codes and refusals of thousands of random edits equal those of a full check."""
    ways: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        rng = random.Random(seed)
        model = models[seed % len(models)]
        document = flat(seed)
        if models is COVERED and not planguard.check(document, model=model).safe:
            continue
        checker = Guard(model=model).incremental(planguard.load(document))
        for _ in range(12):
            change = any_change(rng, document, rng.randrange(document["world_size"]))
            edited = edited_answer(checker, change, model)
            assert answer(checker.check, change) == edited, (seed, model, change)
        ways.update(checker.counts)
    assert ways["order" if models is COVERED else "full"], ways


def pipeline(seed):
    """A 1F1B-like plan of 8 ranks with tensor groups, safe by construction under gloo."""
    rng = random.Random(seed)
    stages, width, batches = 4, 2, rng.randint(2, 4)
    ranks = {}
    for stage in range(stages):
        for lane in range(width):
            rank = stage * width + lane
            actions = []
            for batch in range(batches):
                size = {"bytes": 64 * (1 + batch % 2)}
                if stage:
                    actions.append({"op": "recv", "peer": rank - width, **size})
                actions += [{"op": "all_reduce", "group": f"t{stage}", **size}] * rng.choice([1, 1])
                if stage < stages - 1:
                    work = f"s{batch}"
                    actions.append({"op": "isend", "peer": rank + width, "work": work, **size})
                    actions.append({"op": "wait", "work": work})
            for bucket in range(3):
                work = f"b{bucket}"
                reduce = {"op": "all_reduce", "bytes": 32, "label": work}
                actions.append({**reduce, "async": True, "work": work})
            actions += [{"op": "wait", "work": f"b{bucket}"} for bucket in range(3)]
            ranks[str(rank)] = {"actions": actions}
    groups = {f"t{s}": {"ranks": [s * width, s * width + 1]} for s in range(stages)}
    return {
        "schema": "planguard.plan/1",
        "world_size": stages * width,
        "groups": groups,
        "ranks": ranks,
    }


@pytest.mark.parametrize("model", ["gloo", "mpi-sync", "nccl-serialized", "nccl"])
def test_edits_of_a_pipeline(model):
    """Every reordering of a pipeline's ranks gets the verdict of the full check."""
    ways: Counter[str] = Counter()
    outcomes: Counter[object] = Counter()
    for seed in range(8):
        rng = random.Random(seed)
        document = pipeline(seed)
        checker = Guard(model=model).incremental(planguard.load(document))
        for _ in range(40):
            rank = rng.randrange(8)
            size = len(document["ranks"][str(rank)]["actions"])
            low = rng.randrange(size - 1)
            high = min(size, low + rng.randint(2, 6))
            new = tuple(rng.sample(range(low, high), high - low))
            change = rng.choice([Change(rank, low, high, new), Change.swap(rank, low, low + 1)])
            edited = edited_answer(checker, change, model)
            assert answer(checker.check, change) == edited, (seed, change)
            outcomes[edited if isinstance(edited, str) else edited[0]] += 1
        ways.update(checker.counts)
    assert len(outcomes) > 1, outcomes
    assert ways["order"] + ways["full"] > 200, ways


def test_several_ranks_change_together():
    """A collective inserted on every rank of its group keeps a plan safe; on all but one it does
    not.
    """
    document = pipeline(1)
    checker = Guard(model="gloo").incremental(planguard.load(document))
    new = {"op": "barrier"}
    everywhere = [Change.insert(rank, 0, new) for rank in range(8)]
    assert checker.check(everywhere).safe
    assert checker.check(everywhere[1:]).unsafe
    assert checker.accept(everywhere).verdict.safe


def test_generated_plans_with_loops_and_templates():
    """Edits count actions as findings do, also where loops and templates write them shorter."""
    compared = 0
    for seed in range(30):
        document = generate(seed)
        plan = planguard.load(document)
        checker = Guard(model="gloo").incremental(plan)
        for rank in range(plan.world_size):
            for action in range(plan.length(rank)):
                change = Change.delete(rank, action)
                edited = edited_answer(checker, change, "gloo")
                assert answer(checker.check, change) == edited, (seed, change)
                compared += 1
    assert compared > 200
