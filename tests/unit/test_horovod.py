"""The horovod adapter: negotiated buffers from modules and timelines, files, mutations."""

from __future__ import annotations

import copy
import json
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

adapter = registry.find("horovod")

from oracle.flushes import outcome_of  # noqa: E402

SAMPLES = ROOT / "tests" / "samples" / "horovod"
EXPECTED = {
    "mlp.horovod": {"broadcast": 8, "all_reduce": 16},
    "encoder.horovod": {"broadcast": 24, "all_reduce": 24},
    "two-dtypes.horovod": {"broadcast": 9, "all_reduce": 6},
    "fp16.horovod": {"broadcast": 8, "all_reduce": 8},
    "timeline": {"all_reduce": 6},
}
"""Tensors that every rank submits, by kind; those that are reduced are members of buffers."""


def sample(name: str) -> Any:
    """Return the content of a sample."""
    return json.loads((SAMPLES / f"{name}.json").read_text())


def issued(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return actions, those inside blocks in place of the block."""
    return [a for item in actions for a in (item["body"] if item["op"] == "unordered" else [item])]


@pytest.mark.parametrize("name", EXPECTED)
def test_samples_are_safe_under_every_model(name: str) -> None:
    """Every sample is SAFE under all models, because the ranks agree on what is launched, and has
    the expected tensors of every kind.
    """
    plan = planguard.load(SAMPLES / f"{name}.json")
    for use in json.loads(plan.source)["ranks"].values():
        counts = Counter(action["op"] for action in issued(use["actions"]))
        assert {op: counts[op] for op in EXPECTED[name]} == EXPECTED[name]
    verdict = planguard.check(plan, model="all")
    assert {outcome.value for outcome in verdict.models.values()} == {"SAFE"}
    assert "coordinated-fusion" in verdict.assumptions


@pytest.mark.parametrize("name", ["two-dtypes.horovod", "timeline"])
def test_adapter_conforms(name: str) -> None:
    """check_adapter accepts the adapter on both kinds of files, and damage is refused."""
    seen = check_adapter(adapter, SAMPLES / f"{name}.json")
    assert seen.labeled > 0
    assert seen.refused > 20


def test_one_buffer_per_dtype_and_step() -> None:
    """Only tensors of one dtype travel together; fp16 compression makes them one."""
    document = json.loads(adapter.adapt(sample("two-dtypes.horovod"), PlanBuilder).source)
    assert {b["id"]: len(b["members"]) for b in document["fusion"]} == {
        "step0 f32": 4,
        "step0 f16": 2,
    }
    half = json.loads(
        adapter.adapt(sample("two-dtypes.horovod"), PlanBuilder, compression="fp16").source
    )
    assert [b["id"] for b in half["fusion"]] == ["step0 f16"]
    plan = adapter.adapt(sample("mlp.horovod"), PlanBuilder, fusion_threshold=0)
    assert {b["cap_bytes"] for b in json.loads(plan.source)["fusion"]} == {1}


@pytest.mark.parametrize("model", ["gloo", "nccl", "mpi-sync"])
def test_a_tensor_that_one_rank_never_submits_stalls_all(model: str) -> None:
    """The stall that Horovod warns of is a DEADLOCK of the ranks that wait."""
    ranks = {2: {"missing": ["3.bias"]}}
    plan = adapter.adapt(sample("mlp.horovod"), PlanBuilder, rank_options=ranks)
    verdict = planguard.check(plan, model=model)
    assert verdict.outcome.value == "DEADLOCK"
    assert "never flushed" in verdict.errors[0].message


@pytest.mark.parametrize("model", ["gloo", "nccl", "mpi-eager"])
@pytest.mark.parametrize(
    "ranks",
    [
        {2: {"missing": ["3.bias"]}},
        {0: {"missing": ["0.weight"]}, 1: {"missing": ["3.bias"]}},
        {1: {"steps": 2}},
    ],
    ids=str,
)
def test_findings_speak_of_the_plan_alone(ranks: Any, model: str) -> None:
    """No group, message or partner that only the played execution has is shown; where a rank never
    submits a tensor, that rank and that tensor are named.
    """
    plan = adapter.adapt(sample("mlp.horovod"), PlanBuilder, rank_options=ranks)
    verdict = planguard.check(plan, model=model)
    told = str(verdict) + json.dumps(verdict.to_json()["findings"])
    assert "~" not in told
    assert "messages to rank" not in told
    for rank, options in ranks.items():
        for name in options.get("missing", ()):
            notes = [note for finding in verdict.errors for note in finding.notes]
            assert any(f"rank {rank} never submits" in note and name in note for note in notes)


def test_a_stalled_timeline_names_the_rank() -> None:
    """A tensor whose negotiation never ended lacks a rank: that rank is alone in not waiting."""
    verdict = planguard.check(SAMPLES / "stalled.json", model="gloo")
    assert verdict.outcome.value == "DEADLOCK"
    assert all("rank 1 never submits" in finding.notes[0] for finding in verdict.errors)
    stuck = {rank for finding in verdict.errors for rank in finding.ranks}
    assert {0, 2, 3} <= stuck


def damaged(**changes: Any) -> dict[str, Any]:
    """Return a sample with other top fields."""
    return {**sample("mlp.horovod"), **changes}


def events(*wrong: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the beginning of a timeline and further events."""
    return [*sample("timeline")[:8], *wrong]


BAD: dict[str, tuple[Any, str]] = {
    "no parameters": ({"schema": "planguard.horovod/1", "world_size": 2}, "no parameters"),
    "unknown parameter": (damaged(options={"missing": ["nobody"]}), "$.options.missing"),
    "unknown option": (damaged(options={"threshold": 1}), "fusion_threshold"),
    "negative threshold": (damaged(options={"fusion_threshold": -1}), "0 for no fusion"),
    "compression": (damaged(options={"compression": "zip"}), "none or fp16"),
    "rank": (damaged(rank_options={"9": {}}), "ranks from 0 to 3"),
    "no name": ([{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "pid": 7, "ts": 0}], "without a name"),
    "end without beginning": (events({"ph": "E", "pid": 2, "ts": 1}), "never began"),
    "tick": (events({"ph": "X", "name": "one", "pid": 1, "ts": 1}), "names a rank"),
    "unknown operation": (events({"ph": "B", "name": "NEGOTIATE_SLEEP", "pid": 2}), "not known"),
    "phase": (events({"name": "x"}), "has a phase"),
    "shape": (
        events(
            {"ph": "E", "pid": 1},
            {"ph": "B", "name": "ALLREDUCE", "pid": 1},
            {"ph": "E", "pid": 1, "args": {"dtype": "float32", "shape": "[x]"}},
        ),
        "list of numbers",
    ),
    "nothing negotiated": ([{"ph": "i", "name": "CYCLE_START", "pid": 0}], "no tensor"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_error(name: str) -> None:
    """A malformed file is a PlanError that names the place and says what is expected."""
    document, words = BAD[name]
    with pytest.raises(PlanError) as caught:
        adapter.adapt(document, PlanBuilder)
    assert words in str(caught.value)


def test_usage_errors() -> None:
    """A module without a world size, or an option that does not fit, is a UsageError."""
    nn = pytest.importorskip("torch").nn
    for options in ({}, {"world_size": 2, "buckets": 1}):
        with pytest.raises(UsageError):
            adapter.adapt(nn.Linear(2, 2), PlanBuilder, **options)
    with pytest.raises(UsageError):
        adapter.adapt(sample("timeline"), PlanBuilder, steps=2)
    with pytest.raises(UsageError):
        adapter.adapt(sample("timeline"), PlanBuilder, world_size=2)


# -- mistakes on one rank, judged by brute force ---------------------------------------------------


def swapped(block: list[dict[str, Any]], _: dict[str, Any]) -> None:
    """Submit in another order, which does not matter."""
    block.reverse()
    for at, item in enumerate(block[1:]):
        item["after"] = [block[at]["id"]]


def dropped(block: list[dict[str, Any]], wait: dict[str, Any]) -> None:
    """Never submit a tensor."""
    wait["work"].remove(block.pop()["work"])


def renamed(block: list[dict[str, Any]], wait: dict[str, Any]) -> None:
    """Submit a tensor under a name that the other rank does not have."""
    wait["work"].remove(block[0]["work"])
    block[0] |= {"label": "other", "id": "other", "work": "other"}
    wait["work"].append("other")


def resized(block: list[dict[str, Any]], _: dict[str, Any]) -> None:
    """Submit a larger tensor under the same name."""
    block[1]["bytes"] += 4


def regrouped(block: list[dict[str, Any]], _: dict[str, Any]) -> None:
    """Reduce a tensor beside the coordinator, on the same ranks."""
    block[0] |= {"group": "pair", "id": "apart"}


MUTATIONS = {
    swapped: "SAFE",
    dropped: "DEADLOCK",
    renamed: "DEADLOCK",
    resized: "MISMATCH",
    regrouped: "DEADLOCK",
}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda f: f.__name__)
def test_a_mistake_on_one_rank_is_judged_as_brute_force_judges_it(mutation: Any) -> None:
    """Only the order of submission does not matter; everything else stalls or mixes."""
    shapes = {"a": [3], "b": [2, 2], "c": [1]}
    parameters = [{"name": n, "shape": s, "dtype": "float32"} for n, s in shapes.items()]
    given = {"schema": "planguard.horovod/1", "world_size": 2, "parameters": parameters}
    plan = adapter.adapt(given, PlanBuilder, broadcast_parameters=False)
    document = json.loads(plan.source)
    document.pop("approximations")
    (use,) = document["ranks"].values()
    actions = [item for item in use["actions"] if item["op"] != "compute"]
    for item in actions[0]["body"]:
        item["bytes"] = 4 * item.pop("count")
        del item["dtype"]
    changed = copy.deepcopy(actions)
    mutation(changed[0]["body"], changed[1])
    document["fusion"][0]["members"] += ["other"] if mutation is renamed else []
    document["groups"] = {"pair": {"ranks": [0, 1]}}
    document["ranks"] = {"0": {"actions": actions}, "1": {"actions": changed}}
    expected = MUTATIONS[mutation]
    assert outcome_of(document, "gloo") == expected
    assert planguard.check(document, model="gloo").outcome.value == expected
