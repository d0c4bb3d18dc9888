"""Sizes that are expressions of the inputs' sizes: compared as such, or the plan is undecided."""

from __future__ import annotations

import pytest

import planguard
from planguard import registry

registry.find("fx")  # mounts planguard.planners where it is not installed

C = "_c10d_functional."


def graph(shape, *, op="all_reduce", name="x", out=None):
    """Return a graph that reduces or gathers one input."""
    val = {"shape": shape, "dtype": "float32"}
    node = {
        "all_reduce": ([{"ref": name}, "sum", "0"], "all_reduce.default"),
        "all_gather": ([{"ref": name}, 2, "0"], "all_gather_into_tensor.default"),
    }[op]
    return [{"phase": "forward", "nodes": [
        {"name": name, "op": "placeholder", "val": val},
        {"name": "a", "target": C + node[1], "args": node[0], "val": out or val},
        {"name": "w", "target": C + "wait_tensor.default", "args": [{"ref": "a"}], "val": val},
        {"name": "output", "op": "output", "args": [[{"ref": "w"}]]},
    ]}]  # fmt: skip


def bundle(one, other=None):
    """Return a job of two ranks: a program each, or one for both."""
    group = {"0": {"ranks": [0, 1]}}
    programs = {"p": one} if other is None else {"p": one, "q": other}
    second = {"like": 0} if other is None else {"program": "q", "groups": group}
    return {
        "schema": "planguard.fx/1", "world_size": 2, "programs": programs,
        "ranks": {"0": {"program": "p", "groups": group}, "1": second},
    }  # fmt: skip


def answer(document):
    """Return the outcome, and kind and direction of what the ledger says of sizes."""
    verdict = planguard.check(planguard.load(document, planner="fx"), model="gloo")
    found = {(a.kind, a.direction) for a in verdict.approximations if "size" in a.message}
    return verdict.outcome.value, found


def sym(expr, hint=4):
    """Return a dimension."""
    return {"sym": expr, "hint": hint}


SHARED = ("SAFE", {("dynamic-shape", "exact")})
OPEN = ("UNKNOWN", {("dynamic-shape", "under")})


@pytest.mark.parametrize("op", ["all_reduce", "all_gather"])
def test_one_expression_on_all_members_is_said(op):
    """One program for both ranks, or two that are equal: SAFE if the inputs have one shape."""
    one = graph([sym("s0"), 8], op=op)
    assert answer(bundle(one)) == SHARED
    assert answer(bundle(one, graph([sym("s0"), 8], op=op))) == SHARED


@pytest.mark.parametrize(
    "other",
    [
        graph([sym("s1"), 8]),  # another symbol
        graph([4, 8]),  # a number, which the traced value happens to be
        graph([sym("2*s0"), 8]),  # another expression
        graph([8, sym("s0")]),  # another dimension of the input
        graph([sym("s0"), 8], name="y"),  # another input
    ],
    ids=["symbol", "number", "expression", "dimension", "input"],
)
def test_expressions_that_differ_are_not_decided(other):
    """Both ranks saw four rows of eight while tracing; another batch may differ: UNKNOWN."""
    assert answer(bundle(graph([sym("s0"), 8]), other)) == OPEN


def test_equal_symbols_beside_other_numbers_differ():
    """s0 x 8 x s1 and s0 x 4 x s1 agree for the traced values 2 and 4 only."""
    one, other = graph([sym("s0"), 8, sym("s1", 2)]), graph([sym("s0"), 4, sym("s1", 4)])
    assert answer(bundle(one, other)) == OPEN


def test_a_size_of_no_input_is_not_decided():
    """A symbol that no input has, such as how many elements were kept, is each rank's own."""
    one = graph([4, 8])
    one[0]["nodes"].insert(1, {
        "name": "kept", "target": "aten.nonzero.default", "args": [{"ref": "x"}],
        "val": {"shape": [sym("u0"), 8], "dtype": "float32"},
    })  # fmt: skip
    one[0]["nodes"][2]["args"][0] = {"ref": "kept"}
    one[0]["nodes"][2]["val"] = {"shape": [sym("u0"), 8], "dtype": "float32"}
    assert answer(bundle(one)) == OPEN
