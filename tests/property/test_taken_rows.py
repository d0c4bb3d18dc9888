"""Plans made by taking rows against the same plans written as text and read: one form, two ways."""

from __future__ import annotations

import itertools
import random

import pytest
from oracle import combined, opened, shapes
from oracle.generate import generate
from property.test_orders import loosen, weave

import planguard
from planguard.errors import OrderError, PlanError
from planguard.execution.running.expand import expand
from planguard.options import MODEL_NAMES, CheckOptions
from planguard.plan.fixed import AT, written
from planguard.plan.flatten import flatten
from planguard.reordering.blocks import Block
from planguard.reordering.branches.assignments import assigned, flat_tree, variables_of
from planguard.reordering.branches.sites import Open
from planguard.reordering.explorer import combinations_of, put_in_order
from planguard.reordering.strategy import prepare
from planguard.semantics.model import find_model

FEW = 24
"""Assignments of a plan that are compared."""


def drawn(seed):
    """A random plan with branches, loops and everything else, and its columns, if it has any."""
    if seed % 3 == 0:
        document = opened.branched(seed, random.Random(seed))
    elif seed % 3 == 1:
        document = combined.combined(seed)
    else:
        document = shapes.shaped(list(shapes.SHAPES)[seed % len(shapes.SHAPES)], seed)
    try:
        plan = planguard.load(document)
        return plan, expand(plan)
    except PlanError:
        return None


def flat_of(make, *args):
    """What is in a plan, rank by rank, or why it is none."""
    try:
        fixed = make(*args)
    except OrderError as error:
        return error.code, error.message
    flat = flatten(fixed.plan)
    ends = [fixed.plan.length(rank) for rank in range(fixed.plan.world_size)]
    assert [len(found) for found in fixed.origin] == ends
    return flat["ranks"], flat.get("groups"), flat.get("fusion"), [list(o) for o in fixed.origin]


def in_order(head, orders, chosen):
    """A combination of orders, written and read."""
    ranks = {}
    for order, choice in zip(orders, chosen, strict=True):
        blocks, mine = iter(choice), []
        for part in order.parts:
            leaves = [part.leaves[at] for at in next(blocks)] if isinstance(part, Block) else [part]
            mine += [{**leaf.fields, AT: leaf.action} for leaf in leaves]
        ranks[str(order.rank)] = mine
    return written(head, ranks)


@pytest.mark.parametrize("first", range(0, 1200, 100))
def test_an_order_is_the_same_plan_whichever_way_it_is_made(first):
    """So it is with labels that calls get by their place, and in every order of a block."""
    compared = 0
    for seed in range(first, first + 100):
        rng = random.Random(seed)
        shaped = weave(seed) if seed % 3 == 2 else None
        document = shaped or loosen({"templates": {}, **generate(seed)}, rng)
        try:
            plan = planguard.load(document)
            columns = expand(plan)
        except PlanError:
            continue
        task, _ = prepare(plan, columns, find_model(rng.choice(MODEL_NAMES)), CheckOptions())
        head = flatten(plan)
        for chosen in itertools.islice(combinations_of(task.orders), FEW):
            made = flat_of(put_in_order, task.taking, task.orders, chosen)
            assert made == flat_of(in_order, head, task.orders, chosen), seed
            compared += 1
    assert compared


@pytest.mark.parametrize("first", range(0, 1200, 100))
def test_an_assignment_is_the_same_plan_whichever_way_it_is_made(first):
    """Actions, groups, buffers and origins are those of the plan that is written and read."""
    compared = by_rows = 0
    for seed in range(first, first + 100):
        found = drawn(seed)
        if found is None:
            continue
        plan, columns = found
        flat = flat_tree(plan, columns)
        try:
            variables = variables_of(plan, flat)
        except Exception:  # noqa: BLE001, S112  which branches belong together is not said
            continue
        if not variables.sizes:
            continue
        branched = Open(plan, columns)
        assert branched.variables() == variables
        for assignment in itertools.islice(variables.assignments(), FEW):
            made = flat_of(branched.assigned, assignment)
            assert made == flat_of(assigned, flat, assignment), seed
            compared += 1
            by_rows += branched.is_by_rows
    assert by_rows > compared / 3
