"""The verdict at the cut-off is the verdict of every size from there on."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import planguard
from planguard.options import MODEL_NAMES, CheckOptions
from planguard.parametric import check_for_all, check_symbolic, instance, replications

CHUNK = 20
STARTS = range(0, 160, CHUNK)
SIZES = 3
PIPELINE = 3


def template(rng, *, ring):
    """A random program; part of its messages step around a ring along dp when ``ring``."""
    actions, works = [], []
    dims = ["pp", "dp"] if ring else ["pp"]
    for number in range(rng.randint(2, 6)):
        kind = rng.random()
        work = f"w{number}"
        if kind < 0.45:
            op = rng.choice(["all_reduce", "all_gather", "barrier", "all_to_all"])
            action = {"op": op, "group": rng.choice(["dp", "pp", "all", "world"])}
            if op != "barrier":
                action["bytes"] = rng.choice([4, 4, 8])
            if rng.random() < 0.3:
                action["label"] = rng.choice("xy")
            if rng.random() < 0.4:
                action |= {"async": True, "work": work}
                works.append(work)
            actions.append(action)
        elif kind < 0.9:
            dim, op = rng.choice(dims), rng.choice(["send", "recv", "isend", "irecv"])
            size, group = rng.choice([4, 4, 9000]), rng.choice(["world", "all", dim])
            step = rng.choice([1, -1])
            action = {"op": op, "peer": {dim: step, "wrap": True}, "bytes": size, "group": group}
            if op.startswith("i"):
                action["work"] = work
                works.append(work)
            actions.append(action)
            if rng.random() < 0.8:
                other = "recv" if "send" in op else "isend"
                back = {"op": other, "peer": {dim: -step, "wrap": True}}
                actions.append({**back, "bytes": size, "group": group})
        else:
            ends = [("send", 1), ("recv", -1)]
            ops = [{"op": op, "peer": {"pp": d, "wrap": True}, "bytes": 4} for op, d in ends]
            actions.append({"op": "batch", "ops": ops})
        if works and rng.random() < 0.5:
            actions.append({"op": "wait", "work": works.pop(0)})
    return actions + [{"op": "wait", "work": work} for work in works]


def document(seed, size):
    """A random mesh template at one size of dp, the same text otherwise."""
    rng = random.Random(seed)
    ring = rng.random() < 0.5
    one = template(rng, ring=ring)
    two = template(rng, ring=ring) if rng.random() < 0.3 else one
    dims = [["pp", PIPELINE], ["dp", size]]
    return {
        "schema": "planguard.plan/1",
        "world_size": PIPELINE * size,
        "mesh": {"dims": dims[::-1] if seed % 2 else dims},
        "groups": {
            "dp": {"mesh_dims": ["dp"]},
            "pp": {"mesh_dims": ["pp"]},
            "all": {"mesh_dims": ["pp", "dp"]},
        },
        "templates": {"one": one, "two": two},
        "ranks": {"pp=0-1": {"template": "one"}, "pp=2": {"template": "two"}},
    }


def errors(verdict):
    """Outcome and codes of the errors of a verdict."""
    return verdict.outcome, {f.code for f in verdict.findings if f.severity == "error"}


@pytest.mark.parametrize("first", STARTS)
def test_every_size_behaves_like_the_cut_off(first):
    """Outcome and codes at the cut-off are those of the next sizes, checked rank by rank."""
    seen: Counter[object] = Counter()
    for seed in range(first, first + CHUNK):
        for model in MODEL_NAMES if seed % 10 == 0 else (MODEL_NAMES[seed % 9],):
            options = CheckOptions(model=model)
            plan = planguard.load(document(seed, 3))
            verdict = check_for_all(plan, "dp", options)
            cutoff = replications(plan)["dp"].cutoff
            assert cutoff in {2, 3}, seed
            for size in range(cutoff, cutoff + SIZES):
                whole = planguard.load(document(seed, size))
                full = planguard.check(whole, options=options)
                assert errors(verdict) == errors(full), (seed, model, size)
                symbolic = check_symbolic(whole, options)
                assert symbolic.outcome is full.outcome, (seed, model, size)
                assert symbolic.findings == full.findings, (seed, model, size)
                seen[full.outcome] += 1
    assert len(seen) > 1, seen


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_an_instance_is_the_text_at_that_size(seed):
    """Changing the size of a compiled plan gives the plan that the text has at that size."""
    made = instance(planguard.load(document(seed, 4)), {"dp": 3})
    read = planguard.load(document(seed, 3))
    assert made.code.rank_program == read.code.rank_program
    assert made.code.mesh_sizes == read.code.mesh_sizes
    assert made.code.group_members == read.code.group_members
    assert errors(planguard.check(made)) == errors(planguard.check(read))


@pytest.mark.parametrize("seed", range(60))
def test_templates_with_open_orders(seed):
    """Where blocks leave the order open, the next sizes have the outcome of the cut-off."""
    rng = random.Random(seed)

    def reduction(number):
        group = rng.choice(["dp", "all", "pp"])
        work = {"async": True, "work": f"w{number}"} if rng.random() < 0.6 else {}
        return {"op": "all_reduce", "group": group, "bytes": 4, "label": f"g{number}", **work}

    body = [reduction(number) for number in range(rng.randint(2, 3))]
    waits = [{"op": "wait", "work": action["work"]} for action in body if "work" in action]
    items = [body] if rng.random() < 0.3 else body
    actions = [{"op": "unordered", "body": items}, *waits]

    def plan(size):
        return planguard.load(
            {
                "schema": "planguard.plan/1",
                "world_size": 2 * size,
                "mesh": {"dims": [["pp", 2], ["dp", size]]},
                "groups": {
                    "dp": {"mesh_dims": ["dp"]},
                    "pp": {"mesh_dims": ["pp"]},
                    "all": {"mesh_dims": ["pp", "dp"]},
                },
                "ranks": {f"0-{2 * size - 1}": {"actions": actions}},
            }
        )

    options = CheckOptions(model="gloo")
    verdict = check_for_all(plan(4), "dp", options)
    assert "cut-off-for-open-orders" in verdict.assumptions
    for size in (2, 3):
        full = planguard.check(plan(size), options=options)
        if not full.unknown:
            assert verdict.outcome is full.outcome, size
