"""The fsdp adapter against real FSDP2 on two and four gloo processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import planguard

pytestmark = pytest.mark.processes
torch = pytest.importorskip("torch")

from fsdp_worker import make  # noqa: E402
from recorded_gloo import record  # noqa: E402

WORKER = Path(__file__).parent / "fsdp_worker.py"
TORCH_DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "u8": "uint8"}

COMPLETE = {
    "units and root": ("model", 2, {"units": ["blocks.*"], "steps": 2}),
    "root only": ("linears", 2, {"units": []}),
    "no root parameters": ("linears", 2, {"units": ["*"], "steps": 2}),
    "kept after forward": ("model", 2, {"units": ["blocks.*"], "reshard_after_forward": False}),
    "root resharded": ("model", 2, {"units": ["blocks.*"], "reshard_after_forward": True}),
    "forward prefetch": ("model", 2, {"units": ["blocks.*"], "forward_prefetch": 2}),
    "backward prefetch": ("model", 2, {"units": ["blocks.*"], "backward_prefetch": 2}),
    "mixed precision": (
        "model",
        2,
        {"units": ["blocks.*"], "param_dtype": "bfloat16", "reduce_dtype": "float32"},
    ),
    "nested": ("model", 2, {"units": ["blocks.*", "blocks.*.*"], "steps": 2}),
    "no_sync": ("model", 2, {"units": ["blocks.*"], "steps": 3, "no_sync": [0, 1]}),
    "frozen": ("frozen", 2, {"units": ["*"]}),
    "another order": ("model", 2, {"units": ["blocks.*"], "order": ["blocks.2", "blocks.0"]}),
    "three ranks": ("model", 3, {"units": ["blocks.*"]}),
    "hybrid": ("model", 4, {"units": ["blocks.*"], "replicate": 2}),
    "part after forward": ("model", 4, {"units": ["blocks.*"], "reshard_after_forward": 2}),
}
"""Jobs that end: module, ranks, options."""

BROKEN = {
    "a layer skipped on one rank": ("model", 2, {"1": {"order": ["blocks.0", "blocks.1"]}}),
    "layers swapped on one rank": (
        "model",
        2,
        {"1": {"order": ["blocks.1", "blocks.0", "blocks.2", "blocks.3"]}},
    ),
    "an iteration more on one rank": ("model", 2, {"1": {"steps": 2}}),
    "no_sync on one rank": ("model", 2, {"1": {"no_sync": [0]}}),
    "kept on one rank": ("model", 2, {"1": {"reshard_after_forward": False}}),
}
ALL_BLOCKS = [f"blocks.{block}" for block in range(4)]


def load(module: str, world: int, options: dict[str, Any], ranks: Any = None) -> planguard.Plan:
    """Return the plan of a job, from the module alone."""
    own = {int(rank): given for rank, given in (ranks or {}).items()}
    return planguard.load(
        make(module), planner="fsdp", world_size=world, rank_options=own, **options
    )


def groups(rank: int, world: int, options: dict[str, Any]) -> dict[str, list[int]]:
    """Return the groups of one rank."""
    shard = world // options.get("replicate", 1)
    first = rank - rank % shard
    part = options.get("reshard_after_forward")
    return {
        "shard": list(range(first, first + shard)),
        "replicate": list(range(rank % shard, world, shard)),
        "part": [] if not part else list(range(rank - rank % part, rank - rank % part + part)),
    }


def planned(plan: planguard.Plan, world: int, options: dict[str, Any]) -> list[Any]:
    """Return the collectives of every rank in the words of the recording."""
    ranks: list[Any] = [[] for _ in range(world)]
    for selector, use in json.loads(plan.source)["ranks"].items():
        first, _, last = selector.partition("-")
        for rank in range(int(first), int(last or first) + 1):
            of_rank = groups(rank, world, options)
            for action in use["actions"]:
                if "group" in action:
                    call = {"op": action["op"], "ranks": of_rank[action["group"]]}
                    call |= {"count": action["count"], "dtype": TORCH_DTYPES[action["dtype"]]}
                    ranks[rank].append(call)
    return ranks


@pytest.fixture(scope="module")
def complete():
    """Run the jobs that end."""
    jobs = [{"world": w, "module": m, "options": o} for m, w, o in COMPLETE.values()]
    return dict(zip(COMPLETE, record(WORKER, jobs), strict=True))


@pytest.fixture(scope="module")
def broken():
    """Run the jobs that do not end well."""
    jobs = [
        {"world": w, "module": m, "rank_options": r, "options": {"units": ["blocks.*"]}}
        for m, w, r in BROKEN.values()
    ]
    return dict(zip(BROKEN, record(WORKER, jobs), strict=True))


@pytest.mark.parametrize("name", COMPLETE)
def test_the_plan_is_what_a_real_run_issues(complete, name):
    """Kind, group, size and order of every collective of every rank are those that torch issues,
    and a run that ends is SAFE.
    """
    assert complete[name].outcome == "ok", complete[name].errors
    module, world, options = COMPLETE[name]
    plan = load(module, world, options)
    assert planned(plan, world, options) == complete[name].calls
    for model in ("gloo", "nccl"):
        assert planguard.check(plan, model=model).safe, model


@pytest.mark.parametrize("name", BROKEN)
def test_ranks_that_run_differently_are_not_safe(broken, name):
    """Where ranks run other units, or other iterations, the plan is unsafe; each rank issued what
    the plan says up to the point where it ended, and swapped layers of one size end silently.
    """
    module, world, ranks = BROKEN[name]
    silent = name == "layers swapped on one rank"
    assert (broken[name].outcome == "ok") == silent
    plan = load(module, world, {"units": ["blocks.*"]}, ranks)
    assert planguard.check(plan, model="gloo").unsafe
    intended = planned(plan, world, {})
    for issued, whole in zip(broken[name].calls, intended, strict=True):
        assert issued == whole[: len(issued)]
