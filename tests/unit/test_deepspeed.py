"""Plans of DeepSpeed's schedules: what its engine really called, and what one edit does to them."""

from __future__ import annotations

import copy
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError
from planguard.options import MODEL_NAMES
from planguard.testing import check_adapter

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from oracle.enumerator import Effort, enumerate_plan  # noqa: E402

registry.find("deepspeed")  # mounts planguard.planners where it is not installed

from planguard.planners.deepspeed import adapter  # noqa: E402

FOLDER = TESTS.parent / "planners" / "samples" / "deepspeed"
RECORDED = sorted(path.stem for path in (FOLDER / "recorded").glob("*.json"))
SAMPLES = sorted(path.name.removesuffix(".deepspeed.json") for path in FOLDER.glob("*.deepspeed.*"))
DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64"}


def path_of(name):
    """Return the file of a sample."""
    return FOLDER / f"{name}.deepspeed.json"


def dump(name):
    """Return a sample, parsed."""
    return json.loads(path_of(name).read_text())


def rows(plan):
    """Return the actions of all ranks without computations."""
    document = json.loads(plan.source)
    programs = [document["ranks"][str(rank)]["actions"] for rank in range(plan.world_size)]
    return [[a for a in program if a["op"] != "compute"] for program in programs]


def planned(plan):
    """Return what every rank calls, in the words of a recording."""
    groups = {name: group["ranks"] for name, group in json.loads(plan.source)["groups"].items()}
    out = []
    for row in rows(plan):
        calls = []
        for action in row:
            call = (action["op"], action["count"], action["dtype"])
            peer = action.get("peer", action.get("root"))
            calls.append((*call, peer, tuple(groups.get(action.get("group"), ()))))
        out.append(calls)
    return out


def called(name):
    """Return what every rank of the real engine called, groups of one rank left out."""
    ranks = json.loads((FOLDER / "recorded" / f"{name}.json").read_text())
    return [
        [
            (c["op"], c["count"], DTYPES[c["dtype"]], c.get("src", c.get("dst")),
             tuple(c.get("group", ())))
            for c in calls
            if len(c.get("group", "xx")) > 1
        ]
        for calls in ranks
    ]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in RECORDED if "zero3" not in name])
def test_the_plan_is_what_the_real_engine_called(name):
    """Call by call, rank by rank: operation, size, type, peer and group are those of a real run."""
    assert planned(planguard.load(path_of(name))) == called(name)
