"""What is advised where a limit was reached."""

from __future__ import annotations

import pytest

import planguard as pg
from planguard.execution.findings.cause import open_finding
from planguard.execution.findings.reason import Kind, Reason, out_of_time, too_many
from planguard.reordering.branches.assignments import Variables
from planguard.reordering.branches.decide import _many
from planguard.reordering.smt import _process, _words

TIME, LIMIT, MEMORY, PLAN = (
    "more time: --budget",
    "with a budget",
    "--solver-memory",
    "one `choice`",
)
MANY = Variables({("c", k): 2 for k in range(40)}, ("c",))


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (out_of_time(" after 12 combinations of orders"), TIME),
        (too_many("`init` inside a block; more than 2,000 combinations of orders"), LIMIT),
        (too_many("more than 20,000 states").about("the ways to match its messages"), LIMIT),
        (out_of_time(" after 9 states").about("the ways to match its messages"), TIME),
        (_words("max. memory exceeded"), MEMORY),
        (_words("timeout"), TIME),
        (_process(" was ended by SIGKILL"), MEMORY),
        (_many(MANY, Reason(Kind.BRANCHES, "a block of open order")), PLAN),
        (_many(MANY, _words("timeout")), TIME),
        (too_many("more than 9 of operation memory_budget_exhausted"), LIMIT),
    ],
)
def test_the_advice_follows_the_limit(reason, words):
    """PG903 advises what moves the limit that was reached, and nothing else."""
    finding = open_finding(reason)
    assert finding.code == "PG903"
    advice = finding.help
    assert [each for each in (TIME, LIMIT, MEMORY, PLAN) if each in advice] == [words]


@pytest.mark.parametrize(("budget", "words"), [(None, LIMIT), (0.0, TIME)])
def test_a_search_says_which_limit_it_reached(budget, words):
    """A search that stops advises a budget if it had none, and a larger one if it had one."""
    calls = [{"op": "all_reduce", "group": f"g{k}", "bytes": 4} for k in range(12)]
    chains = [calls[k : k + 2] for k in range(0, 12, 2)] + [[{"op": "destroy", "group": "g0"}]]
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {f"g{k}": {"ranks": [0, 1]} for k in range(12)},
        "ranks": {"0-1": {"actions": [{"op": "unordered", "body": chains}]}},
    }
    verdict = pg.check(plan, model="nccl", budget=budget)
    found = [finding.help for finding in verdict.findings if finding.code == "PG903"]
    assert found, verdict
    assert words in found[0]
