from __future__ import annotations

import copy
import json
import random
from pathlib import Path

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError
from planguard.options import MODEL_NAMES
from planguard.testing import check_adapter

registry.find("fx")  # mounts planguard.planners where it is not installed

from planguard.planners.fx import adapter, read_bundle, write_bundle  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "samples" / "fx"
SAMPLES = sorted(FOLDER.glob("*.fx.json"))
COLLECTIVES = {
    "dp-tp": {"all_reduce": 8},
    "fsdp": {"all_gather_into_tensor": 4, "reduce_scatter_tensor": 4},
    "moe": {"all_to_all_single": 4},
    "routed-moe": {"all_to_all_single": 5},
    "ring-attention": {"all_to_all_single": 6},
    "sp-mlp": {"all_gather_into_tensor": 2, "reduce_scatter_tensor": 2},
    "tp-mlp": {"all_reduce": 2},
}


def name_of(path):
    """Name a sample without its suffixes."""
    return path.name.removesuffix(".fx.json")


@pytest.fixture(params=SAMPLES, ids=name_of)
def sample(request):
    """Give every sample in turn."""
    return request.param


def programs(path):
    """Return the rank programs of a sample's plan."""
    document = json.loads(planguard.load(path, planner="fx").source)
    return document["ranks"]


def test_there_is_a_sample_of_every_kind():
    """Tensor, sequence, data x tensor, fully sharded, expert and context parallel graphs."""
    assert [name_of(path) for path in SAMPLES] == sorted(COLLECTIVES)


def test_the_adapter_keeps_its_contract(sample):
    """check_adapter accepts the adapter on every sample, damaged ones included."""
    done = check_adapter(adapter, sample, variants=20)
    assert done.refused > 0


def test_real_graphs_are_safe_under_every_model(sample):
    """torch's own graphs run; no model may call them unsafe."""
    plan = planguard.load(sample, planner="fx")
    outcomes = {name: planguard.check(plan, model=name).outcome for name in MODEL_NAMES}
    assert set(outcomes.values()) == {planguard.Outcome.SAFE}


def test_every_rank_issues_the_collectives_of_its_model(sample):
    """The plan holds the collectives that the model has, on all eight ranks."""
    rows = programs(sample)
    assert len(rows) == 8
    for row in rows.values():
        ops = [action["op"] for action in row["actions"]]
        counted = {op: ops.count(op) for op in set(ops) - {"wait", "compute"}}
        assert counted == COLLECTIVES[name_of(sample)]
        assert ops.count("wait") == sum(counted.values())


def test_actions_point_at_the_users_code(sample):
    """Every collective knows the line of the model that it comes from."""
    for row in programs(sample).values():
        for action in row["actions"]:
            if action["op"] not in ("wait", "compute"):
                file, line, function = action["src"]
                assert file == "tests/samples/fx/regenerate.py"
                assert line > 0
                assert function


def test_labels_name_parameters_and_gradients():
    """Gathers of the sharded model carry the parameter, reductions its gradient."""
    actions = programs(FOLDER / "fsdp.fx.json")["3"]["actions"]
    labels = [a["label"] for a in actions if a["op"] not in ("wait", "compute")]
    assert labels[:4] == ["0.weight", "1.weight", "2.weight", "3.weight"]
    assert labels[4:] == ["3.weight.grad", "2.weight.grad", "1.weight.grad", "0.weight.grad"]


def test_a_dump_survives_reading_and_writing(sample, tmp_path):
    """Writing what was read gives the same programs, plain and gzipped, and the same text."""
    bundle = read_bundle(sample)
    for name in ("again.fx.json", "again.fx.json.gz"):
        write_bundle(bundle, tmp_path / name)
        again = read_bundle(tmp_path / name)
        assert again.programs == bundle.programs
        assert adapter.sniff(tmp_path / name)
    assert (tmp_path / "again.fx.json").read_text() == sample.read_text()


def test_dumps_hold_no_path_of_the_machine_that_made_them(sample):
    """Locations are relative to the repository."""
    assert '"/' not in sample.read_text()


def damage(document, rng):
    """Replace, drop or add a value somewhere in a parsed dump."""
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.85:
            place = place[key]
            continue
        values = [None, -1, 2**70, 1.5, "", "x", [], {}, [[]], {"ref": "x"}, True, {"sym": 3}]
        place[key] = rng.choice(values)
        return


@pytest.mark.parametrize("seed", range(150))
def test_damaged_dumps_give_a_plan_or_a_plan_error(seed):
    """No damage of the values of a dump raises anything but PlanError."""
    rng = random.Random(seed)
    document = copy.deepcopy(json.loads(rng.choice(SAMPLES[:4]).read_text()))
    for _ in range(rng.randint(1, 3)):
        damage(document, rng)
    try:
        planguard.load(document, planner="fx")
    except PlanError as error:
        assert error.path  # noqa: PT017 - both ways out are right
