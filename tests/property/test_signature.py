"""Equal signatures mean equal verdicts, and renamed plans have equal signatures."""

from __future__ import annotations

import copy
import random
from dataclasses import replace

import pytest
from oracle.generate import generate
from oracle.mutate import mutate
from property.test_metamorphic import everything, flat, moved, shifted

import planguard
from planguard import Guard
from planguard.guard import communication_signature, make_nogood
from planguard.options import MODEL_NAMES, CheckOptions

CHUNK = 40
STARTS = range(0, 160, CHUNK)


def without_time(verdict):
    """A verdict as a plain one, its time left out."""
    return replace(verdict, stats=replace(verdict.stats, ms=0.0))


def permuted(seed):
    """A random plan, and the same with its ranks permuted; groups keep their order."""
    document = flat(seed)
    new = list(range(document["world_size"]))
    random.Random(seed).shuffle(new)
    return planguard.load(document), planguard.load(moved(document, new))


@pytest.mark.parametrize("first", STARTS)
class TestRenaming:
    """What must not change a signature."""

    def test_permuted_ranks_share_an_answer(self, first):
        """A plan with its ranks permuted is a hit, and its verdict is that of the full check."""
        for seed in range(first, first + CHUNK):
            one, other = permuted(seed)
            guard = Guard(model=MODEL_NAMES[seed % 9])
            guard.check(one)
            verdict = guard.check(other)
            full = planguard.check(other, options=guard.options)
            assert guard.stats.hits == int(full.complete), seed  # what is left open is not kept
            assert without_time(verdict) == without_time(full), seed

    def test_new_names_of_groups_and_labels_share_an_answer(self, first):
        """New names of groups and labels are a hit with the verdict of the full check."""
        for seed in range(first, first + CHUNK):
            document = flat(seed)
            renamed = shifted(document, 0, "other_")
            for action in everything(renamed):
                if "label" in action:
                    action["label"] = "other " + action["label"]
            guard = Guard(model=MODEL_NAMES[seed % 9])
            guard.check(planguard.load(document))
            other = planguard.load(renamed)
            verdict = guard.check(other)
            full = planguard.check(other, options=guard.options)
            assert guard.stats.hits == int(full.complete), seed  # what is left open is not kept
            assert without_time(verdict) == without_time(full), seed


@pytest.mark.parametrize("first", STARTS)
def test_equal_signatures_have_equal_verdicts(first):
    """Among mutants of a plan, those that share an entry have equal outcomes and codes."""
    shared = 0
    for seed in range(first, first + CHUNK):
        rng = random.Random(seed)
        model = MODEL_NAMES[seed % 9]
        guard, base = Guard(model=model), flat(seed)
        for _ in range(6):
            document = mutate(base, rng) if any(everything(base)) else base
            verdict = guard.check(document)
            full = planguard.check(document, model=model)
            assert verdict.outcome is full.outcome, seed
            codes = [finding.code for finding in verdict.findings]
            assert codes == [finding.code for finding in full.findings], seed
        shared += guard.stats.hits
    assert shared


def test_reductions_in_another_order_share_nothing():
    """Plans that differ only in the order of same-shape reductions never share an entry."""
    checked = 0
    for seed in range(400):
        rng = random.Random(seed)
        size, count = rng.randint(2, 4), rng.randint(2, 5)
        labels = [f"g{i}" for i in range(count)]
        document = {
            "schema": "planguard.plan/1",
            "world_size": size,
            "ranks": {
                str(rank): {
                    "actions": [
                        {"op": "all_reduce", "bytes": 64, "label": label} for label in labels
                    ]
                }
                for rank in range(size)
            },
        }
        other = copy.deepcopy(document)
        everywhere = seed % 2
        one, two = rng.sample(range(count), 2)
        for rank in range(size) if everywhere else [rng.randrange(size)]:
            actions = other["ranks"][str(rank)]["actions"]
            actions[one], actions[two] = actions[two], actions[one]
        guard = Guard(model="gloo")
        first, second = guard.check(document), guard.check(other)
        assert guard.stats.hits == 0, seed
        assert guard.stats.entries == 2, seed
        assert first.safe
        assert second.safe is bool(everywhere), seed
        checked += 1
    assert checked == 400


@pytest.mark.parametrize("change", ["bytes", "dtype", "reduce_op", "group", "deps", "model"])
def test_what_decides_is_part_of_the_signature(change):
    """Sizes, element types, operations, groups, dependencies and the model tell plans apart."""
    action = {"op": "all_reduce", "count": 4, "dtype": "f32", "async": True, "work": "w", "id": "a"}
    compute = {"op": "compute", "op_name": "c"}
    document = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {"g": {"ranks": [0, 1]}},
        "ranks": {"0-1": {"actions": [action, compute, {"op": "wait", "work": "w"}]}},
    }
    other = copy.deepcopy(document)
    changed = other["ranks"]["0-1"]["actions"]
    if change == "model":
        other["model"] = "gloo"
    elif change == "deps":
        changed[1]["deps"] = ["a"]
    else:
        new = {"bytes": ("count", 8), "dtype": ("dtype", "i32"), "reduce_op": ("reduce_op", "max")}
        name, value = new.get(change, ("group", "g"))
        changed[0][name] = value
    one, two = (communication_signature(planguard.load(d)) for d in (document, other))
    assert (one.question, one.words) != (two.question, two.words)
    assert one.digest != two.digest


def test_roots_follow_their_ranks():
    """A broadcast from another member is another plan; the same root under a new number is not."""

    def plan(root, order):
        program = {"actions": [{"op": "broadcast", "group": "g", "root": root, "bytes": 4}]}
        tail = {"actions": [*program["actions"], {"op": "send", "peer": order[1], "bytes": 4}]}
        head = {"actions": [*program["actions"], {"op": "recv", "peer": order[0], "bytes": 4}]}
        return planguard.load(
            {
                "schema": "planguard.plan/1",
                "world_size": 2,
                "groups": {"g": {"ranks": order}},
                "ranks": {str(order[0]): tail, str(order[1]): head},
            }
        )

    same = [communication_signature(p).ranks.form for p in (plan(0, [0, 1]), plan(1, [1, 0]))]
    assert same[0] == same[1]
    assert communication_signature(plan(1, [0, 1])).ranks.form != same[0]


@pytest.mark.parametrize("first", STARTS)
def test_what_a_nogood_prunes_is_unsafe(first):
    """Every plan for which a nogood is true is unsafe under the same model."""
    pruned = 0
    for seed in range(first, first + CHUNK):
        rng = random.Random(seed)
        options = CheckOptions(model=MODEL_NAMES[seed % 9])
        document = flat(seed)
        plan = planguard.load(document)
        nogood = make_nogood(plan, planguard.check(plan, options=options), options)
        if nogood is None:
            continue
        assert nogood(plan), seed
        for _ in range(25):
            other = document
            for _ in range(rng.randint(1, 4)):
                other = mutate(other, rng)
            try:
                candidate = planguard.load(other)
            except planguard.PlanError:
                continue
            if nogood(candidate):
                pruned += 1
                assert planguard.check(candidate, options=options).unsafe, seed
    assert pruned > CHUNK


def test_a_safe_plan_has_no_nogood():
    """There is nothing to learn from a plan that is not unsafe."""
    found = 0
    for seed in range(40):
        plan = planguard.load(generate(seed))
        verdict = planguard.check(plan, model="gloo")
        if verdict.safe:
            found += 1
            assert make_nogood(plan, verdict, CheckOptions(model="gloo")) is None
    assert found > 5
