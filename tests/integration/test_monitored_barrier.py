"""A monitored barrier is a barrier, but where ranks compare how many calls they made."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
dist = torch.distributed

import planguard  # noqa: E402 - torch must be there
from planguard.capture import precheck  # noqa: E402 - torch must be there

# A machine that is busy with other work takes minutes to start processes with torch.
pytestmark = [pytest.mark.processes, pytest.mark.wheel, pytest.mark.timeout(400)]

JOB = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.monitored_barrier()
dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
"""
MODELS = {"gloo": "SAFE", "nccl": "SAFE", "gloo-detail": "UNKNOWN"}


def step():
    """Do what the job does."""
    dist.monitored_barrier()
    dist.all_reduce(torch.ones(2))


RANKS = """
import os
import sys

import torch.distributed

for rank in range({world}):
    if os.fork() == 0:
        break
else:
    sys.exit(any([os.wait()[1] for _ in range({world})]))
"""


def end_of(folder, world, **more):
    """Return how real processes come to the end of the job: their errors, empty for none.

    They are forked behind one import of torch, which is most of what such a job costs.
    """
    store = folder / f"store-{len(more)}"
    here = f'"gloo", init_method="file://{store}", rank=rank, world_size={world}'
    job = RANKS.format(world=world) + JOB.replace('"gloo"', here)
    done = subprocess.run(
        [sys.executable, "-c", job],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **more},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("world", [2, 3])
def test_its_numbers_decide_under_gloo_detail_alone(tmp_path, world):
    """Three ranks fail in the next collective under DETAIL, two do not, nor does gloo itself: as
    real processes do.
    """
    verdicts = {
        model: precheck(world, model=model, on_unsafe="return").run(step).outcome.name
        for model in MODELS
    }
    assert verdicts == (MODELS if world > 2 else dict.fromkeys(MODELS, "SAFE"))
    if world > 2:
        open_ = precheck(world, model="gloo-detail", on_unsafe="return").run(step)
        line = step.__code__.co_firstlineno + 2
        assert f"{__file__}:{line} counts more calls" in " ".join(open_.reasons)
    assert end_of(tmp_path, world) == ""
    in_detail = end_of(tmp_path, world, TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert ("Sequence number: " in in_detail) == (world > 2), in_detail


@pytest.mark.parametrize("words", [["--stub"], []], ids=["stub", "recorded"])
def test_recorded_and_stubbed_runs_say_so(tmp_path, words):
    """One plan, several models: only the one that counts calls is open, and says why."""
    (tmp_path / "job.py").write_text(JOB)
    launch = ["torchrun", "--nproc-per-node=3"]
    if not words:
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", launch[1]]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "planguard", "dryrun", *words, "-o", "run", "--model", "gloo"]
    done = subprocess.run(
        [*command, "--", *launch, "job.py"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    stubbed = tmp_path / "run" / "captured.plan.json"
    for model, outcome in MODELS.items():
        verdict = planguard.check(stubbed if words else tmp_path / "run", model=model)
        assert verdict.outcome.name == outcome
        said = "job.py:6 counts more calls" in " ".join(verdict.reasons)
        assert said == (outcome == "UNKNOWN")
