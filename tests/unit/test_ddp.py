"""The ddp adapter: buckets, options, files, mutations."""

from __future__ import annotations

import copy
import json
import random
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

adapter = registry.find("ddp")  # mounts planguard.planners where it is not installed

from oracle.enumerator import Effort, enumerate_plan  # noqa: E402
from planguard.planners.common.module import TensorInfo  # noqa: E402
from planguard.planners.ddp.buckets import assign, by_size  # noqa: E402

SAMPLES = ROOT / "tests" / "samples" / "ddp"

EXPECTED = {
    "mlp": {"all_gather": 1, "broadcast": 4, "all_reduce": 7},
    "norms": {"all_gather": 1, "broadcast": 9, "all_reduce": 3},
    "encoder": {"all_gather": 1, "broadcast": 4, "all_reduce": 3},
    "two-dtypes": {"all_gather": 1, "broadcast": 5, "all_reduce": 4},
    "find-unused": {"all_gather": 1, "broadcast": 2, "all_reduce": 10},
    "static-graph": {"all_gather": 1, "broadcast": 4, "all_reduce": 5},
}
"""Collectives of every rank, by kind: constructor, buffers, rebuild, buckets, maps of use."""


def sample(name: str) -> dict[str, Any]:
    """Return the content of a sample."""
    return json.loads((SAMPLES / f"{name}.ddp.json").read_text())


def programs(plan: planguard.Plan) -> dict[str, list[dict[str, Any]]]:
    """Return the actions by selector."""
    return {sel: use["actions"] for sel, use in json.loads(plan.source)["ranks"].items()}


def reductions(plan: planguard.Plan, selector: str) -> list[str]:
    """Return the labels of the reductions of one selector."""
    return [a["label"] for a in programs(plan)[selector] if a["op"] == "all_reduce"]


@pytest.mark.parametrize("name", EXPECTED)
def test_samples_are_safe_under_every_model(name: str) -> None:
    """Every sample is SAFE under all models and has the expected calls of every kind."""
    plan = planguard.load(SAMPLES / f"{name}.ddp.json")
    for actions in programs(plan).values():
        counts = Counter(action["op"] for action in actions)
        assert {op: counts[op] for op in EXPECTED[name]} == EXPECTED[name]
        assert {op for op in counts if op not in EXPECTED[name]} <= {"compute", "wait"}
    models = planguard.check(plan, model="all").models
    assert {outcome.value for outcome in models.values()} == {"SAFE"}


def test_adapter_conforms() -> None:
    """check_adapter accepts the adapter on a file, and damage is refused."""
    seen = check_adapter(adapter, SAMPLES / "norms.ddp.json")
    assert seen.labeled == sum(EXPECTED["norms"].values())
    assert seen.refused > 30


def test_buckets_without_torch_are_those_of_torch() -> None:
    """PlanGuard's reading of the bucket rule equals torch's own on random parameters."""
    pytest.importorskip("torch")
    rng = random.Random(3)
    for _ in range(300):
        names = range(rng.randint(1, 9))
        dtypes = ["float32"] if rng.random() < 0.5 else ["float32", "float16"]
        tensors = [
            TensorInfo(str(n), (rng.randint(0, 40),), rng.choice(dtypes), sparse=rng.random() < 0.1)
            for n in names
        ]
        limits = [rng.randint(1, 300) for _ in range(rng.randint(1, 3))]
        assert by_size(tensors, limits) == assign(tensors, limits)
        if len(dtypes) == 1:  # torch leaves the order of the rest open for several
            ready = rng.sample(list(names), len(names))
            assert by_size(tensors, limits, ready) == assign(tensors, limits, ready)


def test_a_module_in_memory_and_its_file_give_one_plan(tmp_path: Path) -> None:
    """dump writes what adapt reads from the module itself, and the module is never called."""
    nn = pytest.importorskip("torch").nn

    class Never(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.Linear(3, 5)

        def forward(self, _: Any) -> Any:
            raise AssertionError("called")

    from planguard.planners.ddp import dump

    given = {"world_size": 3, "bucket_cap_mb": 1.5, "rank_options": {1: {"steps": 1}}}
    dump(Never(), tmp_path / "never.ddp.json", **given)
    live = planguard.load(Never(), planner="ddp", **given)
    assert planguard.load(tmp_path / "never.ddp.json").document == live.document
    source = next(a["src"] for a in programs(live)["0,2"] if "src" in a)
    assert source[0] == __file__


def test_rebuilt_buckets_follow_the_told_order() -> None:
    """ready_order changes which gradients share a bucket after the rebuild, on all ranks."""
    names = [p["name"] for p in sample("mlp")["parameters"]]
    plan = adapter.adapt(sample("mlp"), PlanBuilder, ready_order=names)
    first, *rest = reductions(plan, "0-1")
    assert first.startswith("iter0 grad: ")
    assert rest[0] == "iter1 grad: 0.bias+0.weight+1.weight"
    assert "ready-order" not in {entry.kind for entry in plan.approximations}


@pytest.mark.parametrize("launch", ["ordered", "any"])
def test_a_hook_that_sends_nothing_has_no_reductions(launch: str) -> None:
    """With comm_hook=noop the buckets are not reduced, in whatever order a hook may start them."""
    plan = adapter.adapt(sample("mlp"), PlanBuilder, comm_hook="noop", launch=launch)
    (actions,) = programs(plan).values()
    computes = [one["op_name"] for one in actions if one["op"] == "compute"]
    assert "iter0 backward 0" in computes
    assert not {"all_reduce", "unordered"} & {one["op"] for one in actions}


def test_a_branch_is_safe_iff_all_ranks_take_the_same() -> None:
    """A branch that only some ranks take leaves the others waiting for its bucket; with
    find_unused_parameters there is nothing to choose.
    """
    branch = {"expert": ["5.weight", "5.bias"]}
    open_ = adapter.adapt(sample("mlp"), PlanBuilder, branches=branch, steps=1)
    (choice,) = [a for a in programs(open_)["0-1"] if a["op"] == "choice"]
    taken, skipped = choice["branches"]
    assert [a["op"] for a in taken].count("all_reduce") == 1
    assert [a["op"] for a in skipped].count("all_reduce") == 0
    verdict = planguard.check(open_, model="gloo")
    assert not verdict.safe
    found = adapter.adapt(
        sample("mlp"), PlanBuilder, branches=branch, steps=1, find_unused_parameters=True
    )
    assert planguard.check(found, model="gloo").safe


def test_a_hook_that_launches_in_any_order_mixes_buckets() -> None:
    """Without the order of the reducer, two ranks may start buckets of one size in any order."""
    names = [p["name"] for p in sample("mlp")["parameters"]]
    plan = adapter.adapt(sample("mlp"), PlanBuilder, launch="any", ready_order=names[::-1], steps=2)
    assert planguard.check(plan, model="gloo").outcome.value == "MISMATCH"


def test_what_is_not_known_stands_in_the_ledger() -> None:
    """A hook of unknown content leaves the plan undecided."""
    plan = adapter.adapt(sample("mlp"), PlanBuilder, comm_hook="custom")
    assert "comm-hook" in {entry.kind for entry in plan.approximations}
    assert planguard.check(plan).outcome.value == "UNKNOWN"


def damaged(**changes: Any) -> dict[str, Any]:
    """Return a sample with other top fields."""
    return {**sample("mlp"), **changes}


BAD = {
    "no parameters": ({"schema": "planguard.ddp/1", "world_size": 2}, "no parameters"),
    "negative size": (damaged(parameters=[{"name": "a", "shape": [-1], "dtype": "float32"}]),
                      "$.parameters[0].shape[0]"),
    "unknown dtype": (damaged(parameters=[{"name": "a", "shape": [1], "dtype": "f99"}]),
                      "unknown dtype"),
    "twice": (damaged(parameters=[{"name": "a", "shape": [1], "dtype": "float32"}] * 2),
              "two tensors of one name"),
    "unknown option": (damaged(options={"bucket_cap": 3}), "did you mean 'bucket_cap_mb'"),
    "unknown field": (damaged(colour=1), "unknown field"),
    "unknown parameter": (damaged(options={"unused": ["nobody"]}), "$.options.unused"),
    "order incomplete": (damaged(options={"ready_order": ["0.bias"]}), "leaves out"),
    "rank outside": (damaged(rank_options={"7": {}}), "ranks from 0 to 1"),
    "cap zero": (damaged(options={"bucket_cap_mb": 0}), "greater than 0"),
    "too large": (damaged(parameters=[{"name": "a", "shape": [2**40, 2**40], "dtype": "int64"}]),
                  "2^63"),
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
    for options in ({}, {"world_size": 0}, {"world_size": 2, "bucket_cap": 1}):
        with pytest.raises(UsageError):
            adapter.adapt(nn.Linear(2, 2), PlanBuilder, **options)


# -- mistakes in one rank's program, judged by the independent enumerator --------------------------


def collectives(actions: list[dict[str, Any]], *ops: str) -> list[int]:
    """Return the places of collectives."""
    return [at for at, action in enumerate(actions) if action["op"] in (ops or ("all_reduce",))]


def swapped(actions: list[dict[str, Any]]) -> None:
    """Issue two buckets in the other order."""
    one, other = collectives(actions)[1:3]
    actions[one], actions[other] = actions[other], actions[one]


def dropped(actions: list[dict[str, Any]]) -> None:
    """Leave out the last bucket and its wait."""
    work = actions.pop(collectives(actions)[-1])["work"]
    actions[:] = [a for a in actions if a["op"] != "wait" or a["work"] != work]


def doubled(actions: list[dict[str, Any]]) -> None:
    """Reduce a bucket twice."""
    at = collectives(actions)[-1]
    actions.insert(at, {key: value for key, value in actions[at].items() if key != "work"})


def rerooted(actions: list[dict[str, Any]]) -> None:
    """Take the state of another rank."""
    actions[collectives(actions, "broadcast")[0]]["root"] = 1


def resized(actions: list[dict[str, Any]]) -> None:
    """Reduce a larger bucket than the others."""
    actions[collectives(actions)[-1]]["count"] += 16


MUTATIONS = (swapped, dropped, doubled, rerooted, resized)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", ["mlp", "find-unused"])
def test_a_mistake_on_one_rank_is_judged_as_the_enumerator_judges_it(
    name: str, mutation: Any
) -> None:
    """A mutated plan is unsafe, and its outcome is that of exhaustive exploration."""
    document = json.loads(planguard.load(SAMPLES / f"{name}.ddp.json").source)
    actions = document["ranks"].pop("0-1")["actions"]
    changed = copy.deepcopy(actions)
    mutation(changed)
    document["ranks"] = {"0": {"actions": actions}, "1": {"actions": changed}}
    for model in ("gloo", "nccl", "mpi-sync"):
        expected = enumerate_plan(document, model, Effort(verify=0)).outcome
        assert planguard.check(document, model=model).outcome.value == expected
        assert expected in {"MISMATCH", "DEADLOCK"}
