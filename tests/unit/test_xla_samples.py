"""Programs that jax and XLA wrote: what is in them, and which are safe."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

import planguard
from planguard import registry
from planguard.options import MODEL_NAMES
from planguard.testing import check_adapter

registry.find("xla")  # mounts planguard.planners where it is not installed

from planguard.planners.xla import adapter  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "samples" / "xla"
GATHER, SCATTER = "all_gather_into_tensor", "reduce_scatter_tensor"
ALL = {
    "all_reduce": 2, GATHER: 1, SCATTER: 1, "all_to_all_single": 1, "batch": 1,
}  # fmt: skip
SAFE = {
    "mlp.hlo": {"all_reduce": 1, "coalesced": 1},
    "fsdp.hlo": {GATHER: 3, "coalesced": 1},
    "collectives.hlo": ALL,
    "collectives.mlir": ALL,
    "ring.hlo": {"batch": 4, "all_reduce": 1},
    "ring.mlir": {"batch": 4, "all_reduce": 1},
    "pipeline.hlo": {"batch": 14, "all_reduce": 1},
    "pipeline.mlir": {"batch": 14, "all_reduce": 1},
    "moe.hlo": {"all_to_all_single": 2, "all_reduce": 1},
    "stages.hlo": {"all_reduce": 1},
    "stages.mlir": {"all_reduce": 1},
    "agreed.hlo": {"all_reduce": 2},
    "tpu-layers.hlo": {GATHER: 6, "wait": 2},
    "tpu-mlp.hlo": {"all_reduce": 1, "coalesced": 1},
    "tpu-ring.hlo": {"batch": 4, "wait": 4, "all_reduce": 1},
}
UNSAFE = {
    "divided.hlo": "MISMATCH",
    "skipped.hlo": "DEADLOCK",
    "skipped.mlir": "DEADLOCK",
    "data-dependent.hlo": "POTENTIAL_DEADLOCK",
}


def counted(actions, times=1):
    """Count the actions of a program by operation, loops unrolled and branches entered."""
    found: Counter[str] = Counter()
    for action in actions:
        if action["op"] == "repeat":
            found += counted(action["body"], times * action["times"])
        elif action["op"] == "choice":
            for branch in action["branches"]:
                found += counted(branch, times)
        else:
            found[action["op"]] += times
    return found


def programs(plan):
    """Return the programs of a plan in the order of ranks."""
    document = json.loads(plan.source)
    return [document["ranks"][str(rank)]["actions"] for rank in range(plan.world_size)]


@pytest.mark.parametrize("name", SAFE)
def test_what_xla_compiled_is_safe_under_every_model(name):
    """Programs that run are called SAFE, whichever model is asked."""
    plan = planguard.load(FOLDER / name)
    outcomes = {model: planguard.check(plan, model=model).outcome.value for model in MODEL_NAMES}
    assert outcomes == dict.fromkeys(MODEL_NAMES, "SAFE")


@pytest.mark.parametrize("name", SAFE)
def test_every_rank_has_the_communications_of_its_program(name):
    """Eight devices, and on each the number of actions of every kind that the program has."""
    rows = programs(planguard.load(FOLDER / name))
    assert len(rows) == 8
    assert [dict(counted(row)) for row in rows] == [SAFE[name]] * 8


@pytest.mark.parametrize("name", UNSAFE)
def test_branches_that_split_a_group_are_found(name):
    """A branch whose collectives the members of one group do not share is not SAFE."""
    assert planguard.check(FOLDER / name).outcome.value == UNSAFE[name]


def test_a_program_that_is_not_partitioned_yet_is_not_judged():
    """StableHLO of a pjit program has no collectives yet, so the answer is UNKNOWN."""
    plan = planguard.load(FOLDER / "mlp.mlir")
    assert planguard.check(plan).outcome.value == "UNKNOWN"
    assert "not-partitioned" in {entry.kind for entry in plan.approximations}


@pytest.mark.parametrize(
    ("rest", "shown"),
    [
        ("8,8]{1,0} copy(%x), sharding={devices=[2,1]<=[2]}", True),
        ('4,8]{1,0} custom-call(%x), custom_call_target="SPMDFullToShardShape"', True),
        ('8,8]{1,0} copy(%x), frontend_attributes={xla.sdy.sharding="#sdy"}', True),
        ("8,8]{1,0} copy(%x), sharding={replicated}", False),
        ("8,8]{1,0} copy(%x)", False),
    ],
    ids=["tiled", "full shape", "shardy", "replicated", "partitioned"],
)
def test_hlo_before_the_partitioner_is_not_safe(tmp_path, rest, shown):
    """A dump of an early pass lacks the collectives that the partitioner places: UNKNOWN."""
    path = tmp_path / "early.hlo"
    path.write_text(
        "HloModule early, num_partitions=2\n\nENTRY %main (x: f32[8,8]) -> f32[8,8] {\n"
        "  %x = f32[8,8]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}\n"
        f"  %w = f32[{rest}\n"
        "  ROOT %p = f32[8,8]{1,0} collective-permute(%x), channel_id=1, "
        "source_target_pairs={{0,1},{1,0}}\n}\n"
    )
    plan = planguard.load(path, local_calls=["SPMDFullToShardShape"])
    assert ("not-partitioned" in {entry.kind for entry in plan.approximations}) == shown
    assert planguard.check(plan).outcome.value == ("UNKNOWN" if shown else "SAFE")


@pytest.mark.parametrize("header", ["is_scheduled=true, ", ""])
@pytest.mark.parametrize("entry", ["main_spmd", "main"])
def test_a_sharding_that_a_later_pass_copied_is_no_sign(tmp_path, header, entry):
    """Layouts are assigned behind the partitioner; a copy of a parameter keeps its sharding."""
    path = tmp_path / "late.hlo"
    path.write_text(
        f"HloModule late, {header}num_partitions=2\n\nENTRY %{entry} (x: f32[8,8]) -> f32[8,8] {{\n"
        "  %x = f32[8,8]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}\n"
        "  %w = f32[8,8]{0,1} copy(%x), sharding={devices=[2,1]<=[2]}\n"
        "  ROOT %p = f32[8,8]{0,1} collective-permute(%w), channel_id=1, "
        "source_target_pairs={{0,1},{1,0}}\n}\n"
    )
    is_late = bool(header) and entry == "main_spmd"
    assert planguard.check(path).outcome.value == ("SAFE" if is_late else "UNKNOWN")


@pytest.mark.parametrize("name", ["collectives.hlo", "ring.mlir", "tpu-layers.hlo", "agreed.hlo"])
def test_the_adapter_keeps_its_contract(name):
    """check_adapter accepts the adapter, damaged programs included."""
    assert check_adapter(adapter, FOLDER / name, variants=25).refused > 0


def test_sources_name_the_line_of_the_text_and_of_the_users_code():
    """An action points at its instruction and at the line of Python that made it."""
    action = programs(planguard.load(FOLDER / "collectives.hlo"))[3][0]
    file, line, text = action["src"]
    name = text.split()[0]
    assert f"%{name} = " in Path(file).read_text().splitlines()[line - 1]
    assert re.search(r"regenerate\.py:\d+ collectives", text)


def test_samples_hold_no_path_of_the_machine_that_made_them():
    """Locations are relative to the repository."""
    for path in FOLDER.glob("*.[hm]*"):
        assert '"/' not in path.read_text()
