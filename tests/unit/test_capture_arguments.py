"""What public functions of capture and of the live guard say of wrong arguments."""

from __future__ import annotations

import contextlib
import math

import pytest
import torch

import planguard
from planguard import capture
from planguard.errors import PlanGuardError, UsageError
from planguard.live import guard

WRONG = (True, -1, 1.5, math.nan, "\ud800", b"x", [None], {"a": "b"}, object(), torch.zeros(2))
GRAPH = torch.fx.symbolic_trace(torch.nn.Identity())
PAIR = {"world_size": 2, "groups": {"a": [0, 1]}}
CASES = {
    "precheck": (
        capture.precheck,
        {"world_size": 2, "mesh": None, "ranks": None, "rank": 0, "on_unsafe": "raise",
         "timeout": 1.0, "jobs": None, "name": None, "rounds": None, "budget": 1.0},
    ),
    "guarded_passes": (
        capture.guarded_passes,
        {"passes": [len], "groups": None, "world_size": 2, "mesh": None, "others": "same",
         "patience": 1.0},
    ),
    "validate_pass": (
        capture.validate_pass,
        {"before": GRAPH, "after": GRAPH, "groups": {"a": [0, 1]}, "world_size": 2, "rank": 0},
    ),
    "fx.dump": (capture.fx.dump, {"bundle": None, "path": "x"}),
    "placements": (
        capture.assert_same_placements, {"placements": None, "ranks": None, "patience": 1.0}
    ),
    "guard": (guard, {"timeout": 1.0, "warn_after": None, "report": None, "exit_code": None}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_argument_is_refused_or_taken(name):
    """No value of any argument is an error of our insides."""
    function, given = CASES[name]
    for argument in given:
        for wrong in WRONG:
            with contextlib.suppress(PlanGuardError):
                function(**{**given, argument: wrong})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: capture.precheck("two"), r"Precheck\(world_size=...\): 'two' is no number"),
        (lambda: capture.precheck(2, timeout=math.inf), "no number of seconds above 0"),
        (lambda: capture.guarded_passes(["dce"]), "no list of functions"),
        (lambda: capture.fx.dump(GRAPH, "x.json"), "no FxBundle"),
        (lambda: capture.validate_pass(GRAPH, GRAPH, rank=3, **PAIR), "rank 3 of a world of 2"),
        (lambda: guard(timeout="long"), r"guard\(timeout=...\): 'long'"),
    ],
)
def test_what_is_wrong_is_said(call, said):
    """The function, the argument and what it has to be stand in the error."""
    with pytest.raises(UsageError, match=said):
        call()


def test_a_group_that_does_not_exist_is_said_with_those_that_do():
    """Plan.group names the groups of the plan; also for what can be no name."""
    builder = planguard.PlanBuilder(2)
    builder.group("pair", [0, 1])
    builder.program("0-1").barrier("pair")
    plan = builder.build()
    for name in ("pairs", None, ["pair"]):
        with pytest.raises(UsageError, match="there is no group") as caught:
            plan.group(name)
        assert caught.value.hint == "groups: world, pair"
    with pytest.raises(UsageError, match="there is no group"):
        plan.group_name("pairs", 0)
