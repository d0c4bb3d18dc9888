"""The fsdp adapter: units, options, files, mutations."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError
from planguard.plan.building.builder import PlanBuilder
from planguard.testing import check_adapter

ROOT = Path(__file__).resolve().parents[2]

adapter = registry.find("fsdp")

from oracle.enumerator import Effort, enumerate_plan  # noqa: E402

SAMPLES = ROOT / "tests" / "samples" / "fsdp"
GATHER, SCATTER = "all_gather_into_tensor", "reduce_scatter_tensor"
EXPECTED = {
    "mlp": {GATHER: 8, SCATTER: 4},
    "encoder": {GATHER: 16, SCATTER: 8},
    "bf16": {GATHER: 8, SCATTER: 4},
    "hybrid": {GATHER: 8, SCATTER: 4, "all_reduce": 4},
    "part": {GATHER: 8, SCATTER: 4},
    "frozen": {GATHER: 15, SCATTER: 3},
}
"""Collectives of every rank, by kind; a unit is gathered in forward and in backward."""


def sample(name: str) -> dict[str, Any]:
    """Return the content of a sample."""
    return json.loads((SAMPLES / f"{name}.fsdp.json").read_text())


def actions_of(plan: planguard.Plan) -> list[dict[str, Any]]:
    """Return the actions that all ranks run."""
    (use,) = json.loads(plan.source)["ranks"].values()
    return use["actions"]


def brief(plan: planguard.Plan) -> list[str]:
    """Return the labels of the collectives up to the names of the tensors."""
    return [a["label"].partition(":")[0] for a in actions_of(plan) if "group" in a]


@pytest.mark.parametrize("name", EXPECTED)
def test_samples_are_safe_under_every_model(name: str) -> None:
    """Every sample is SAFE under all models and has the expected calls of every kind."""
    plan = planguard.load(SAMPLES / f"{name}.fsdp.json")
    counts = Counter(action["op"] for action in actions_of(plan))
    assert {op: counts[op] for op in EXPECTED[name]} == EXPECTED[name]
    others = {op for op in counts if op not in EXPECTED[name]}
    assert others <= {"compute", "event_record", "event_wait"}
    models = planguard.check(plan, model="all").models
    assert {outcome.value for outcome in models.values()} == {"SAFE"}


def test_adapter_conforms() -> None:
    """check_adapter accepts the adapter on a file, and damage is refused."""
    seen = check_adapter(adapter, SAMPLES / "hybrid.fsdp.json")
    assert seen.labeled == sum(EXPECTED["hybrid"].values())
    assert seen.refused > 30


def test_backward_gathers_one_unit_ahead() -> None:
    """By default backward gathers the unit that ran before, ahead of the reduction; the first unit
    is reduced at the end, because nothing before it has a gradient.
    """
    assert brief(adapter.adapt(sample("mlp"), PlanBuilder)) == [
        *(f"iter0 forward {unit}" for unit in range(4)),
        "iter0 backward 3",
        "iter0 backward prefetch 2",
        "iter0 gradients 3",
        "iter0 backward prefetch 1",
        "iter0 gradients 2",
        "iter0 backward prefetch 0",
        "iter0 gradients 1",
        "iter0 gradients 0",
    ]


def test_forward_can_gather_ahead_and_keep() -> None:
    """forward_prefetch gathers units ahead of time; reshard_after_forward=False gathers once."""
    plan = adapter.adapt(
        sample("mlp"), PlanBuilder, forward_prefetch=1, reshard_after_forward=False
    )
    assert brief(plan)[:5] == [
        "iter0 forward 0",
        *(f"iter0 forward prefetch {unit}" for unit in (1, 2, 3)),
        "iter0 gradients 3",
    ]


def test_sizes_are_padded_shards_in_the_dtypes_of_the_policy() -> None:
    """A rank contributes its padded share of every parameter, in param_dtype; gradients are reduced
    in reduce_dtype; parameters of several dtypes travel as bytes.
    """
    tensors = [("a.w", [7, 3], "float32"), ("a.b", [5], "float32"), ("b.w", [4], "float16"),
               ("b.v", [4], "float32")]  # fmt: skip
    document = {
        "schema": "planguard.fsdp/1",
        "world_size": 4,
        "parameters": [{"name": n, "shape": s, "dtype": d} for n, s, d in tensors],
        "options": {"units": ["a", "b"]},
    }
    plain = [a for a in actions_of(adapter.adapt(document, PlanBuilder)) if "group" in a]
    assert (plain[0]["count"], plain[0]["dtype"]) == (2 * 3 + 2, "f32")
    assert (plain[1]["count"], plain[1]["dtype"]) == (2 + 4, "u8")
    policy = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
    mixed = actions_of(adapter.adapt(document, PlanBuilder, **policy))
    found = {(a["op"], a["dtype"]) for a in mixed if "group" in a}
    assert found == {(GATHER, "bf16"), (SCATTER, "f32")}


def test_a_skipped_unit_hangs_and_swapped_units_mix() -> None:
    """Ranks that run other units are found: a rank without one leaves the others waiting, two units
    of one size in the other order mix silently.
    """
    skipped = {1: {"order": ["0", "1", "2"]}}
    swapped = {1: {"order": ["1", "0", "2", "3"]}}
    for ranks in (skipped, swapped):
        plan = adapter.adapt(sample("mlp"), PlanBuilder, rank_options=ranks)
        assert planguard.check(plan, model="gloo").unsafe
    verdict = planguard.check(
        adapter.adapt(sample("mlp"), PlanBuilder, rank_options=swapped), model="gloo"
    )
    assert verdict.outcome.value == "MISMATCH"
    assert "PG212" in {finding.code for finding in verdict.findings}


LIVE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
import planguard

def model():
    return nn.Sequential(*[nn.Linear(32, 32) for _ in range(3)], nn.LayerNorm(32))

dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
import torch
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
sharded = model()
for at in range(3):
    fully_shard(sharded[at], mesh=mesh, mp_policy=policy, reshard_after_forward=at != 1)
fully_shard(sharded, mesh=mesh, mp_policy=policy)
sharded[0].set_modules_to_forward_prefetch([sharded[1], sharded[2]])
live = planguard.load(sharded)
told = planguard.load(
    model(), planner="fsdp", world_size=4, replicate=2, units=["0", "1", "2"],
    param_dtype="bfloat16", reshard_units={"1": False}, forward_prefetch={"0": ["1", "2"]},
)
def calls(plan):
    keep = ("op", "group", "count", "dtype", "label")
    (use,) = json.loads(plan.source)["ranks"].values()
    return [[a.get(k) for k in keep] for a in use["actions"]]
assert calls(live) == calls(told), (calls(live), calls(told))
print(len(calls(live)), planguard.check(live).outcome.value)
"""


def test_a_sharded_module_is_read_without_options() -> None:
    """Units, mesh, policies and prefetches of a module that fully_shard was applied to are those
    that the options say.
    """
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", LIVE], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    count, outcome = done.stdout.split()
    assert int(count) > 20
    assert outcome == "SAFE"


def damaged(**changes: Any) -> dict[str, Any]:
    """Return a sample with other top fields."""
    return {**sample("mlp"), **changes}


BAD = {
    "no parameters": ({"schema": "planguard.fsdp/1", "world_size": 2}, "no parameters"),
    "no such unit": (damaged(options={"units": ["blocks.*"]}), "$.options.units"),
    "order": (damaged(options={"units": ["*"], "order": ["9"]}), "$.options.order"),
    "prefetch": (damaged(options={"units": ["*"], "forward_prefetch": {"0": ["9"]}}), "no unit"),
    "scalar": (damaged(parameters=[{"name": "0.a", "shape": [], "dtype": "float32"}]),
               "without dimensions"),
    "replicas": (damaged(world_size=6, options={"units": ["*"], "replicate": 4}), "divisor"),
    "reshard": (damaged(options={"units": ["*"], "reshard_after_forward": 3}), "divisor of 2"),
    "dtype": (damaged(options={"units": ["*"], "param_dtype": "f7"}), "param_dtype"),
    "unknown option": (damaged(options={"unit": ["*"]}), "did you mean 'units'"),
    "units no list": (damaged(options={"units": 3}), "names or patterns"),
    "rank": (damaged(rank_options={"x": {}}), "ranks from 0 to 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_error(name: str) -> None:
    """A malformed file is a PlanError that names the place and says what is expected."""
    document, words = BAD[name]
    with pytest.raises(PlanError) as caught:
        adapter.adapt(document, PlanBuilder)
    assert words in str(caught.value)


def test_usage_errors() -> None:
    """A module without a world size, or an option that does not exist, is a UsageError."""
    nn = pytest.importorskip("torch").nn
    for options in ({}, {"world_size": True}, {"world_size": 2, "shards": 1}):
        with pytest.raises(UsageError):
            adapter.adapt(nn.Linear(2, 2), PlanBuilder, **options)


# -- mistakes in one rank's program, judged by the independent enumerator --------------------------


def places(actions: list[dict[str, Any]], op: str) -> list[int]:
    """Return the places of collectives of a kind."""
    return [at for at, action in enumerate(actions) if action["op"] == op]


def swapped(actions: list[dict[str, Any]]) -> None:
    """Gather two units in the other order."""
    one, other = places(actions, GATHER)[:2]
    actions[one], actions[other] = actions[other], actions[one]


def dropped(actions: list[dict[str, Any]]) -> None:
    """Leave out the last reduction."""
    actions.pop(places(actions, SCATTER)[-1])


def doubled(actions: list[dict[str, Any]]) -> None:
    """Gather a unit twice."""
    at = places(actions, GATHER)[-1]
    actions.insert(at, dict(actions[at]))


def regrouped(actions: list[dict[str, Any]]) -> None:
    """Reduce over another group."""
    actions[places(actions, SCATTER)[0]]["group"] = "replicate"


def resized(actions: list[dict[str, Any]]) -> None:
    """Gather a larger share than the others."""
    actions[places(actions, GATHER)[0]]["count"] += 8


MUTATIONS = (swapped, dropped, doubled, regrouped, resized)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda f: f.__name__)
def test_a_mistake_on_one_rank_is_judged_as_the_enumerator_judges_it(mutation: Any) -> None:
    """A mutated plan is unsafe, and its outcome is that of exhaustive exploration."""
    plan = adapter.adapt({**sample("hybrid"), "world_size": 4}, PlanBuilder)
    document = json.loads(plan.source)
    (use,) = document["ranks"].values()
    changed = copy.deepcopy(use["actions"])
    mutation(changed)
    document["ranks"] = {"0-2": use, "3": {"actions": changed}}
    for model in ("gloo", "nccl-serialized", "mpi-sync"):
        expected = enumerate_plan(document, model, Effort(verify=0)).outcome
        assert planguard.check(document, model=model).outcome.value == expected
        assert expected in {"MISMATCH", "DEADLOCK"}
