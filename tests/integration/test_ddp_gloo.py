"""The ddp adapter against real DDP on two gloo processes: order, sizes, counts, and the ending."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import planguard

pytestmark = pytest.mark.processes
torch = pytest.importorskip("torch")

from ddp_worker import make  # noqa: E402
from recorded_gloo import record  # noqa: E402

WORKER = Path(__file__).parent / "ddp_worker.py"
TORCH_DTYPES = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "i64": "int64",
    "i32": "int32",
}

COMPLETE = {
    "plain": ("linears", {"bucket_cap_mb": 0.005, "steps": 3}, {}),
    "default caps": ("norms", {}, {}),
    "buffers": ("norms", {"bucket_cap_mb": 0.005, "steps": 3}, {}),
    "find unused": ("norms", {"bucket_cap_mb": 0.005, "find_unused_parameters": True}, {}),
    "static graph": ("linears", {"bucket_cap_mb": 0.005, "static_graph": True, "steps": 4}, {}),
    "list of caps": ("linears", {"bucket_cap_mb_list": [0.005, 0.01], "steps": 3}, {}),
    "no_sync": ("norms", {"bucket_cap_mb": 0.005, "no_sync": [0, 2], "steps": 5}, {}),
    "no init sync": ("linears", {"init_sync": False, "broadcast_buffers": False}, {}),
    "half precision": ("linears", {"bucket_cap_mb": 0.005, "comm_hook": "fp16_compress"}, {}),
    "two dtypes": ("mixed", {"bucket_cap_mb": 0.005, "steps": 2}, {}),
    "unused, found": (
        "branched",
        {"find_unused_parameters": True, "unused": ["middle.weight"]},
        {},
    ),
    "unused on one rank, found": (
        "branched",
        {"find_unused_parameters": True},
        {"1": {"unused": ["middle.weight"]}},
    ),
    "caps differ, rebuilt": (
        "linears",
        {"bucket_cap_mb": 0.005, "steps": 3},
        {"1": {"bucket_cap_mb": 0.01}},
    ),
    "views differ": ("linears", {"bucket_cap_mb": 0.005}, {"1": {"gradient_as_bucket_view": True}}),
}
"""Jobs that end: module, options, options of single ranks."""

BROKEN = {
    "caps differ, never rebuilt": (
        "linears",
        {"find_unused_parameters": True, "bucket_cap_mb": 0.005},
        {"1": {"bucket_cap_mb": 0.01}},
    ),
    "find_unused on one rank": (
        "linears",
        {"bucket_cap_mb": 0.005},
        {"1": {"find_unused_parameters": True}},
    ),
    "static_graph on one rank": (
        "linears",
        {"bucket_cap_mb": 0.005},
        {"1": {"static_graph": True}},
    ),
    "unused on one rank": ("branched", {"steps": 1}, {"1": {"unused": ["middle.weight"]}}),
    "no_sync on one rank": ("linears", {"steps": 1}, {"1": {"no_sync": [0]}}),
    "an iteration more on one rank": ("linears", {}, {"1": {"steps": 3}}),
    "buffers on one rank": ("norms", {}, {"1": {"broadcast_buffers": False}}),
}


def load(case: tuple[str, dict[str, Any], dict[str, Any]]) -> planguard.Plan:
    """Return the plan of a job, from the module alone."""
    module, options, ranks = case
    own = {int(rank): given for rank, given in ranks.items()}
    return planguard.load(make(module), planner="ddp", world_size=2, rank_options=own, **options)


def planned(plan: planguard.Plan) -> list[list[dict[str, Any]]]:
    """Return the collectives of every rank in the words of the recording."""
    ranks: list[list[dict[str, Any]]] = [[], []]
    for selector, use in json.loads(plan.source)["ranks"].items():
        first, _, last = selector.partition("-")
        for rank in range(int(first), int(last or first) + 1):
            for action in use["actions"]:
                if action["op"] in {"compute", "wait"}:
                    continue
                call = {"op": action["op"], "ranks": [0, 1], "count": action["count"]}
                call["dtype"] = TORCH_DTYPES[action["dtype"]]
                ranks[rank].append(call | ({"root": action["root"]} if "root" in action else {}))
    return ranks


def jobs(cases: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cases as jobs of the worker."""
    return [
        {"world": 2, "module": module, "options": options, "rank_options": ranks}
        for module, options, ranks in cases.values()
    ]


@pytest.fixture(scope="module")
def complete():
    """Run the jobs that end."""
    return dict(zip(COMPLETE, record(WORKER, jobs(COMPLETE)), strict=True))


@pytest.fixture(scope="module")
def broken():
    """Run the jobs that do not."""
    return dict(zip(BROKEN, record(WORKER, jobs(BROKEN)), strict=True))


@pytest.mark.parametrize("name", COMPLETE)
def test_the_plan_is_what_a_real_run_issues(complete, name):
    """Kind, group, root, size and order of every collective of every rank are those that torch
    issues, and a run that ends is SAFE.
    """
    assert complete[name].outcome == "ok", complete[name].errors
    plan = load(COMPLETE[name])
    assert planned(plan) == complete[name].calls
    assert planguard.check(plan, model="gloo").safe
    assert planguard.check(plan).safe


@pytest.mark.parametrize("name", BROKEN)
def test_a_run_that_hangs_or_raises_is_not_safe(broken, name):
    """Where options that differ between ranks make real processes hang or raise, the plan is
    unsafe; and each rank issued what the plan says up to the point where it ended.
    """
    assert broken[name].outcome in {"hang", "error", "crash"}
    plan = load(BROKEN[name])
    verdict = planguard.check(plan, model="gloo")
    assert verdict.unsafe, verdict.outcome
    for issued, intended in zip(broken[name].calls, planned(plan), strict=True):
        assert issued == intended[: len(issued)]
