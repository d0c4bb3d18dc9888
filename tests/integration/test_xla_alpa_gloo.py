"""Plans of the xla and alpa adapters, right and edited, as real gloo processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gloo_runner import GlooPool

import planguard

pytestmark = pytest.mark.processes
SAMPLES = Path(__file__).resolve().parents[2] / "tests" / "samples"


def alpa(**edits):
    """Return the plan of a dump of Alpa, edited."""
    data = json.loads((SAMPLES / "alpa" / "reshard-2x2.alpa.json").read_text())
    data.pop("inputs")
    listed = data["instructions"]["m1h0"]
    recv = [n for n, i in enumerate(listed) if i["op"] == "RECV"]
    send = [n for n, i in enumerate(listed) if i["op"] == "SEND"]
    if edits.get("swap"):
        listed[recv[0]], listed[send[0]] = listed[send[0]], listed[recv[0]]
    if edits.get("drop"):
        del listed[recv[-1]]
    if edits.get("peer"):
        for message in data["tasks"]["0"]["recv"]["m1h0"]:
            message["src"] ^= 1
    return planguard.load(data, planner="alpa")


def xla(folder: Path, old: str = "", new: str = "", name: str = "moe.hlo"):
    """Return the plan of a program of which the second half of the devices runs an edited copy."""
    path = SAMPLES / "xla" / name
    text = path.read_text()
    assert old in text
    (folder / "edited.hlo").write_text(text.replace(old, new))
    return planguard.load({"0-3": path, "4-7": folder / "edited.hlo"}, planner="xla")


def test_real_processes_end_as_the_verdicts_say(tmp_path: Path) -> None:
    """SAFE plans run to their end on gloo; DEADLOCK plans hang."""
    groups = "replica_groups={{0,4},{1,5},{2,6},{3,7}}"
    plans = [
        alpa(),
        alpa(swap=True),
        alpa(drop=True),
        xla(tmp_path),
        xla(tmp_path, groups, "replica_groups={{0,5},{1,4},{2,6},{3,7}}"),
        planguard.load(SAMPLES / "xla" / "skipped.hlo"),
        planguard.load(SAMPLES / "xla" / "collectives.hlo"),
    ]
    outcomes = [planguard.check(plan, model="gloo").outcome.value for plan in plans]
    with GlooPool(parallel=2) as pool:
        results = pool.run_many([json.loads(plan.source) for plan in plans])
    seen = [
        {"ok": "SAFE", "hang": "DEADLOCK"}.get(result.outcome, result.outcome) for result in results
    ]
    assert outcomes == seen
    assert outcomes.count("SAFE") == 3
    assert outcomes.count("DEADLOCK") == 4
