"""Recorded jobs that fill buffers in hooks, against the same jobs on real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.wheel]
pytest.importorskip("torch")

CAMPAIGN = Path(__file__).parents[1] / "campaigns" / "fused_runs.py"
RQ3 = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import fused_runs
fused_runs.TRIES = 1
rows = []
for number, buffers in enumerate((2, 3, 8)):
    for kind in ("dealt", "drained"):
        fused_runs.Job.draw = lambda seed, k=kind, b=buffers: fused_runs.Job(seed, k, b, 4, 3)
        rows += fused_runs.campaign([number])
import json
print(json.dumps(rows))
"""
SWAP = """
import sys
import torch, torch.distributed as dist
from planguard import capture
rank, folder, swapped = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "1"
capture.start(folder + "/run", values=True)
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
torch.manual_seed(1)
a, b = torch.randn(64), torch.randn(8, 8).view(64)
for x in (b, a) if swapped and rank else (a, b):
    dist.all_reduce(x)
capture.stop()
dist.destroy_process_group()
"""


def environment() -> dict[str, str]:
    """The environment of a job."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def test_jobs_of_every_kind_are_judged_as_they_end():
    """Eight recorded jobs, a right or a wrong one of each kind: the verdict is what ranks do that
    take their branches in orders of their own.
    """
    command = [sys.executable, str(CAMPAIGN), "8"]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=500, check=True
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()[:-1]]
    assert [row["kind"] for row in rows if not row["agrees"]] == []
    assert {row["truth"] == ["right"] for row in rows} == {True, False}


def test_fused_buffers_of_a_run_are_answered_as_in_dl2s_third_question():
    """Hooks, asynchronous reductions and 2, 3 or 8 buffers: a mismatch is possible where buckets
    leave when they are ready, and none where they are sent in one order; in 2 s of processor.
    """
    done = subprocess.run(
        [sys.executable, "-c", RQ3, str(CAMPAIGN.parent)],
        env=environment(), capture_output=True, text=True, timeout=500, check=True,
    )  # fmt: skip
    rows = json.loads(done.stdout.splitlines()[-1])
    assert [row["said"] for row in rows] == ["MISMATCH", "SAFE"] * 3
    assert all(row["seconds"] < 2 for row in rows[1:])  # the first check imports


@pytest.mark.parametrize(("swapped", "outcome"), [("1", "MISMATCH"), ("0", "SAFE")])
def test_calls_of_one_size_that_changed_places_are_found_by_their_values(
    tmp_path, swapped, outcome
):
    """Replicated tensors of one size, reduced in another order on one rank, end well and are found
    by a few recorded values; without the swap the run is SAFE.
    """
    import planguard

    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", SWAP, str(rank), str(tmp_path), swapped], env=environment()
        )
        for rank in range(2)
    ]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
    assert planguard.check(tmp_path / "run").outcome.value == outcome
