"""Fused buffers on a mesh: ranks that share a program, and plans of rows, against the slow way.

The plans of `test_fused_beside` and `test_fused_orders` are put on a mesh twice, side by side:
groups become families, equal programs become one template, some have messages between the two
copies beside their members. What ranks of one program share must not be seen from outside.
"""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from property import test_fused_beside, test_fused_orders

import planguard
from planguard.errors import OrderError
from planguard.execution.findings.reason import UndecidedError
from planguard.execution.running.expand import expand
from planguard.options import Deadline
from planguard.plan.flatten import flatten
from planguard.reordering.buffers.agreement import agreements
from planguard.reordering.buffers.merge import EveryRankError, merge, write
from planguard.reordering.buffers.play import play
from planguard.reordering.buffers.ranks import Ranks
from planguard.semantics.model import find_model

MODELS = ("gloo", "nccl", "nccl-serialized", "nccl-lazy", "mpi-sync", "gloo-detail")
COPIES = 2
MESSAGES = [
    {"op": "isend", "peer": {"copy": 1, "wrap": True}, "bytes": 8, "work": "out", "label": "m"},
    {"op": "irecv", "peer": {"copy": -1, "wrap": True}, "bytes": 8, "work": "in", "label": "m"},
]


def renamed(item):
    """Return an action of the plan in which the world is a group of one copy."""
    found = dict(item)
    for field in ("body", "threads"):
        if field in found:
            found[field] = [
                [renamed(one) for one in inner] if isinstance(inner, list) else renamed(inner)
                for inner in found[field]
            ]
    if found["op"] in {"all_reduce", "init", "barrier"}:
        found["group"] = found.get("group", "world").replace("world", "all")
    return found


def on_a_mesh(document, rng, *, messages):
    """Return a plan twice, side by side on a mesh, with a template for each program."""
    world = document["world_size"]
    groups = {"all": list(range(world))} | {
        name: spec["ranks"] for name, spec in document.get("groups", {}).items()
    }
    if any(len(ranks) != world for ranks in groups.values()):
        return None
    templates, ranks, numbers = {}, {}, {}
    for rank, use in document["ranks"].items():
        actions = [renamed(item) for item in use["actions"]]
        blocks = [item for item in actions if item["op"] == "unordered"]
        if messages and blocks:
            at = rng.randint(0, 1)
            blocks[0]["body"] += MESSAGES if at else MESSAGES[::-1]
            actions.append({"op": "wait", "work": ["out", "in"]})
        name = numbers.setdefault(json.dumps(actions), f"t{len(numbers)}")
        templates[name] = actions
        ranks[f"member={rank}"] = {"template": name}
    fusion = [
        {**spec, "group": spec.get("group", "world").replace("world", "all")}
        for spec in document["fusion"]
    ]
    return {
        "schema": "planguard.plan/1", "world_size": COPIES * world,
        "mesh": {"dims": [["copy", COPIES], ["member", world]]},
        "groups": {name: {"mesh_dims": ["member"]} for name in groups},
        "templates": templates, "ranks": ranks, "fusion": fusion,
    }  # fmt: skip


def drawn(seed):
    """Return a plan, the same on a mesh, and whether messages were added."""
    rng = random.Random(seed)
    of = test_fused_beside if seed % 2 else test_fused_orders
    document = of.random_plan(seed)
    messages = rng.random() < 0.3
    return document, on_a_mesh(document, rng, messages=messages), messages


def played(plan, *, apart):
    """Return the ranks of a plan and what they issue in the usual order, if that is known."""
    try:
        ranks = Ranks(plan, apart=apart)
        coordinated = [buffer for buffer in ranks.buffers if buffer.is_coordinated]
        found = agreements(coordinated, ranks, ranks.members, find_model("gloo"), Deadline())
        agreed = found.ways[0]
        return ranks, [play(rank, rank.usual, agreed, ranks) for rank in ranks]
    except EveryRankError:  # as the decision does
        return played(plan, apart=True)
    except UndecidedError:
        return None


def flat_of(make, *args):
    """What is in a plan, rank by rank, and where it comes from; or why it is none."""
    try:
        fixed = make(*args)
    except OrderError as error:
        return error.code, error.message
    expand(fixed.plan)
    flat = flatten(fixed.plan)
    return flat["ranks"], [tuple(found) for found in fixed.origin]


@pytest.mark.parametrize("first", range(0, 1600, 200))
def test_a_merged_plan_is_the_same_made_of_rows_and_written(first):
    """Actions and origins are equal, whether ranks of one program are looked at once or each."""
    compared = shared = 0
    for seed in range(first, first + 200):
        _, document, _ = drawn(seed)
        if document is None:
            continue
        plan = planguard.load(document)
        alone, together = played(plan, apart=True), played(plan, apart=False)
        assert (alone is None) is (together is None), seed
        if alone is None or any(one.taken is None or one.groups for one in alone[1]):
            continue
        slow = flat_of(write, *alone)
        assert flat_of(lambda *a: merge(*a).ordered, *alone) == slow, seed
        try:
            fast = flat_of(lambda *a: merge(*a).ordered, *together)
        except EveryRankError:
            continue
        assert fast == slow, seed
        assert [merge(*alone).flushes] == [merge(*together).flushes]
        compared += 1
        shared += len(set(together[0].first)) < len(together[0])
    assert compared > 60
    assert shared > 20


@pytest.mark.parametrize("first", range(0, 320, 40))
def test_ranks_that_share_a_program_get_the_verdict_of_ranks_that_do_not(first):
    """The plan on the mesh, the same written out rank by rank, and one copy of it: one outcome.

    Plans that take more than a second are passed over.
    """
    seen = Counter()
    for seed in range(first, first + 40):
        one_copy, document, messages = drawn(seed)
        if document is None:
            continue
        model = MODELS[seed // 2 % len(MODELS)]
        plan = planguard.load(document)
        asked = [plan, flatten(plan), one_copy]
        verdicts = []
        for one in asked:
            verdicts.append(planguard.check(one, model=model, budget=1))
            if any(f.code == "PG903" for f in verdicts[-1].findings):
                break
        if any(f.code == "PG903" for f in verdicts[-1].findings):
            seen["late"] += 1
            continue
        found, apart, alone = verdicts
        assert planguard.Guard(model=model).check(document).outcome is found.outcome, seed
        if apart.unknown and not found.unknown:
            seen["decided"] += 1
        else:
            assert found.outcome is apart.outcome, (seed, model)
            errors = [{f.code for f in verdict.errors} for verdict in (found, apart)]
            assert errors[0] == errors[1], (seed, model)
        if not messages and not alone.unknown and not found.unknown:
            assert found.outcome is alone.outcome, (seed, model)
        seen[found.outcome.value] += 1
    assert seen["SAFE"] > 1
    assert seen["MISMATCH"] > 1
