"""One program for all devices of a module is what walking each of them gives."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path

import pytest

import planguard
from planguard import registry
from planguard.options import MODEL_NAMES

registry.find("xla")  # mounts planguard.planners where it is not installed

from planguard.planners.xla import alike  # noqa: E402
from planguard.planners.xla.groups import read_groups, transposed  # noqa: E402

FOLDER = Path(__file__).resolve().parents[1] / "samples" / "xla"
SAMPLES = sorted([*FOLDER.glob("*.hlo"), *FOLDER.glob("*.mlir"), *FOLDER.glob("manual/*.mlir")])
APART = {
    "collectives.hlo", "collectives.mlir", "divided.hlo", "pipeline.hlo", "pipeline.mlir",
    "ring.hlo", "ring.mlir", "skipped.hlo", "skipped.mlir", "stages.hlo", "stages.mlir",
    "tpu-ring.hlo",
}  # fmt: skip
LAYER = """HloModule jit_step, is_scheduled=true, num_partitions={devices}

%add (x: f32[], y: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}}

ENTRY %main (a: f32[8,512]) -> f32[8,512] {{
  %a = f32[8,512]{{1,0}} parameter(0)
  %one = f32[8,512]{{1,0}} all-reduce(%a), channel_id=1, replica_groups={one}, \
use_global_device_ids=true, to_apply=%add
  ROOT %other = f32[8,512]{{1,0}} all-reduce(%one), channel_id=2, replica_groups={other}, \
use_global_device_ids=true, to_apply=%add
}}
"""


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_program_for_all_has_the_answers_of_one_for_each(path, monkeypatch):
    """Every sample, looked at as if it had many devices: outcome, codes and ledger are the same."""
    plain = planguard.load(path)
    monkeypatch.setattr(alike, "MANY", 2)
    one = planguard.load(path)
    assert one.world_size == plain.world_size
    assert one.actions == plain.actions
    for model in MODEL_NAMES:
        ours, theirs = (planguard.check(plan, model=model) for plan in (one, plain))
        assert ours.outcome is theirs.outcome
        assert {f.code for f in ours.findings} == {f.code for f in theirs.findings}
        assert [(a.kind, a.message) for a in ours.approximations] == [
            (a.kind, a.message) for a in theirs.approximations
        ]


def test_the_samples_that_are_one_program_are_known(monkeypatch):
    """Programs that permute or ask for their partition are walked by device; no other is."""
    monkeypatch.setattr(alike, "MANY", 2)
    found = {path.name for path in SAMPLES if b'"mesh"' not in planguard.load(path).source}
    assert found == APART


@pytest.mark.parametrize("seed", range(40))
def test_families_of_random_meshes_are_found(seed, tmp_path, monkeypatch):
    """Groups over any dimensions of a random mesh meet as they do when each rank is listed."""
    rng = random.Random(seed)
    dims = [rng.choice((1, 2, 3, 4)) for _ in range(3)]
    text = []
    for _ in range(2):
        chosen = sorted(rng.sample(range(3), rng.randint(1, 3)))
        rest = [at for at in range(3) if at not in chosen]
        order = [*rest, *chosen] if rng.random() < 0.8 else rng.sample(range(3), 3)
        width = 1
        for at in order[len(rest) :]:
            width *= dims[at]
        devices = dims[0] * dims[1] * dims[2]
        listed = ",".join(map(str, dims))
        text.append(f"[{devices // width},{width}]<=[{listed}]T({','.join(map(str, order))})")
    path = tmp_path / "one.hlo"
    path.write_text(LAYER.format(devices=devices, one=text[0], other=text[1]))
    plain = planguard.load(path)
    monkeypatch.setattr(alike, "MANY", 2)
    one = planguard.load(path)
    for model in ("gloo", "nccl"):
        outcome = planguard.check(one, model=model).outcome
        assert outcome is planguard.check(plain, model=model).outcome
        assert outcome is planguard.Outcome.SAFE or one.actions == 0  # nothing to check
    groups = [read_groups(part) for part in text]
    for rank, program in enumerate(_groups_met(one)):
        assert program == [
            group for part in groups for group in part if rank in group and len(group) > 1
        ]


def _groups_met(plan, ranks=None):
    """Return the ranks of the group of each call, by rank, in their order."""
    made = json.loads(plan.source)
    groups = made.get("groups", {})
    mesh = made.get("mesh", {"dims": []})["dims"]
    found = []
    for rank in ranks or range(plan.world_size):
        program = made["ranks"].get(str(rank)) or next(iter(made["ranks"].values()))
        found.append([_ranks(groups, mesh, rank, a["group"], plan.world_size)
                      for a in program["actions"]])  # fmt: skip
    return found


def _ranks(groups, mesh, rank, name, world):
    if name == "world":
        return tuple(range(world))
    spec = groups[name]
    if "ranks" in spec:
        return tuple(spec["ranks"])
    places = list(product(*(range(size) for _, size in mesh)))
    own = places[rank]
    free = [at for at, (dim, _) in enumerate(mesh) if dim in spec["mesh_dims"]]
    return tuple(
        other
        for other, place in enumerate(places)
        if all(place[at] == own[at] for at in range(len(mesh)) if at not in free)
    )


@pytest.mark.parametrize(
    "groups",
    [
        "{{0,1},{2,3},{4,6},{5,7}}",  # no family: the first groups are neighbors, the last are not
        "{{1,0},{3,2},{5,4},{7,6}}",  # another order than the mesh has
        "{{0,1,2,3},{4,5},{6,7}}",  # of different sizes
        "{{0,3},{1,2},{4,7},{5,6}}",  # mirrored
        "{{0,1,4,5},{2,3,6,7}}",
    ],
)
def test_groups_that_are_no_family_are_listed(groups, tmp_path, monkeypatch):
    """Then every rank has its own program, and the same answer."""
    path = tmp_path / "one.hlo"
    path.write_text(LAYER.format(devices=8, one=groups, other="{{0,2},{1,3},{4,6},{5,7}}"))
    monkeypatch.setattr(alike, "MANY", 2)
    plan = planguard.load(path)
    shared = b'"mesh"' in plan.source
    assert shared == (groups == "{{0,1,4,5},{2,3,6,7}}")
    listed = read_groups(groups)
    for rank, program in enumerate(_groups_met(plan)):
        assert program[0] == next(group for group in listed if rank in group)


def test_devices_that_are_many_are_one_program(tmp_path):
    """4,096 devices in 2 x 512 x 8: the plan has one program and two families."""
    path = tmp_path / "many.hlo"
    path.write_text(
        LAYER.format(devices=4096, one="[512,8]<=[4096]", other="[8,512]<=[512,8]T(1,0)")
    )
    plan = planguard.load(path)
    assert len(plan.source) < 2_000
    assert plan.actions == 2 * 4096
    assert planguard.check(plan, model="nccl").safe
    members = transposed([512, 8], [1, 0])[:512]
    assert _groups_met(plan, [0]) == [[tuple(range(8)), tuple(members)]]
