from __future__ import annotations

import itertools
from collections import Counter

import pytest

import planguard
from planguard.execution.running.expand import expand
from planguard.options import CheckOptions
from planguard.reordering import strategy
from planguard.reordering.explorer import explore_all
from planguard.semantics.model import find_model

SHAPES = ("xy", "yx", "[xy]", "[yx]", "[x]y", "[x[xy]]")
"""Programs over two groups; brackets are a block of open order."""


def program(shape, asynchronous):
    """Read a shape: letters are reductions of groups, brackets are blocks."""
    stack, counts = [[]], Counter()
    for letter in shape:
        if letter == "[":
            stack.append([])
        elif letter == "]":
            body = stack.pop()
            stack[-1].append({"op": "unordered", "body": body})
        else:
            label = f"{letter}{counts[letter]}"
            counts[letter] += 1
            call = {"op": "all_reduce", "group": letter, "bytes": 4, "label": label}
            if letter in asynchronous:
                call |= {"async": True, "work": label}
            stack[-1].append(call)
    (actions,) = stack
    waits = [f"{x}{n}" for x in asynchronous for n in range(counts[x])]
    return actions + [{"op": "wait", "work": work} for work in waits]


def scope(asynchronous):
    """Yield every pair of shapes on two ranks."""
    for shapes in itertools.combinations_with_replacement(SHAPES, 2):
        ranks = {str(n): {"actions": program(s, asynchronous)} for n, s in enumerate(shapes)}
        yield {
            "schema": "planguard.plan/1",
            "world_size": 2,
            "groups": {"x": {"ranks": [0, 1]}, "y": {"ranks": [0, 1]}},
            "ranks": ranks,
        }


def outcomes(model, asynchronous):
    """Outcomes of a scope by route and by exhaustion, and how many orders were run."""
    cheap, full, orders = Counter(), Counter(), 0
    for document in scope(asynchronous):
        plan = planguard.load(document)
        cheap[planguard.check(plan, model=model).outcome.value] += 1
        task, problem = strategy.prepare(
            plan, expand(plan), find_model(model), CheckOptions(model=model)
        )
        assert not problem
        explored = explore_all(task)
        full[explored.outcome.value] += 1
        orders += explored.schedules
    return dict(cheap), dict(full), orders


FROZEN = {
    ("gloo", ""): ({"SAFE": 4, "DEADLOCK": 2, "POTENTIAL_DEADLOCK": 9, "MISMATCH": 6}, 108),
    ("gloo", "x"): ({"SAFE": 15, "MISMATCH": 6}, 108),
    ("nccl", "xy"): ({"SAFE": 4, "POTENTIAL_DEADLOCK": 11, "MISMATCH": 6}, 108),
}


@pytest.mark.parametrize(("model", "asynchronous"), [("gloo", ""), ("gloo", "x"), ("nccl", "xy")])
def test_a_complete_scope_keeps_its_counts(model, asynchronous):
    """All pairs of six programs over two groups: frozen outcomes, and orders explored, by count."""
    cheap, full, orders = outcomes(model, asynchronous)
    assert cheap == full
    assert (full, orders) == FROZEN[model, asynchronous]
