"""The golden case of ComScribe on real processes: ResNet-18 under DDP on 16 ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import planguard
from planguard.simulate.matrix import matrix
from planguard.simulate.traffic import traffic

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(900)]
pytest.importorskip("torch", reason="torch is not installed")

import resnet18_worker  # noqa: E402
from planguard.planners.ddp import dump  # noqa: E402

from planguard.capture.run.reading import recording_of_run  # noqa: E402

RANKS = 16
BUCKETS = [513_000, 7_213_056, 3_963_456]
"""Elements of the buckets of the second step; in the first there is one."""


def test_sixteen_processes_do_what_the_plan_says(tmp_path: Path) -> None:
    """Call for call, bucket for bucket and broadcast for broadcast, and so byte for byte."""
    file = tmp_path / "resnet18.ddp.json"
    dump(resnet18_worker.ResNet18(), file, world_size=RANKS, steps=2)
    worker = Path(__file__).with_name("resnet18_worker.py")
    command = ["dryrun", "-o", str(tmp_path / "run"), "--plan", str(file), "--"]
    command += [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    done = subprocess.run(
        [sys.executable, "-m", "planguard", *command, str(worker)],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"conformance: {RANKS} EQUAL" in done.stdout
    planned = matrix(traffic(planguard.load(file)))
    recorded = matrix(traffic(recording_of_run(tmp_path / "run").to_plan()))
    assert planned.bytes.tobytes() == recorded.bytes.tobytes()
    assert planned.counts.tobytes() == recorded.counts.tobytes()
    (program,) = json.loads(planguard.load(file).source)["ranks"].values()
    reduced = [call["count"] for call in program["actions"] if call["op"] == "all_reduce"]
    assert reduced == [sum(BUCKETS), *BUCKETS]
