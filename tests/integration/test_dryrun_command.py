"""The command ``planguard dryrun`` on a real torchrun job, and with stubs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import planguard

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.processes, pytest.mark.wheel]
pytest.importorskip("torch")

JOB = """
import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
assert os.environ.get("SITE_WAS_RUN") == "1" or dist.get_world_size() > 2
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 8)))
for _ in range(2):
    model(torch.ones(4, 64)).sum().backward()
dist.destroy_process_group()
"""
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": str(folder),
    }
    command = [sys.executable, "-m", "planguard", "dryrun", *words]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.fixture
def job(tmp_path) -> Path:
    """Write a job, its plan, and a sitecustomize that was there before."""
    from torch import nn

    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['SITE_WAS_RUN'] = '1'\n")
    module = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 8))
    for steps in (2, 3):
        plan = planguard.load(module, planner="ddp", world_size=2, steps=steps)
        text = plan.source if isinstance(plan.source, bytes) else plan.source.encode()
        (tmp_path / f"{steps}.plan.json").write_bytes(text)
    return tmp_path


def test_a_torchrun_job_is_recorded_checked_and_compared(job):
    """One command: the job runs unchanged, both witnesses agree, the run is safe and conforms; a
    sitecustomize that was there before is run as well. Another plan is told from what was run.
    """
    options = ("--witness", "--plan", "2.plan.json", "-o", "run")
    done = call(job, *options, "--", *TORCHRUN, "--nproc-per-node", "2", "job.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "witnesses: 14 calls seen by both, and no other" in done.stdout
    assert "conformance: 2 EQUAL (rank and group)" in done.stdout
    assert planguard.check(planguard.load(job / "run")).safe
    assert call(job, "-o", "run", "--", "true").returncode == 2, "the folder is not empty"
    # A plan of one step more: what is missing, with the place in the plan.
    done = call(job, "--plan", "3.plan.json", "-o", "run")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "error[PG503]" in done.stdout
    assert "conformance: 2 MISSING" in done.stdout


def test_stubbed_ranks_cover_a_larger_job(job):
    """Twelve ranks are decided from four, and the coverage says so."""
    done = call(job, "--stub", "-o", "run", "--", "torchrun", "--nproc-per-node", "12", "job.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "covered: 4 of 12 ranks, 1 class" in done.stderr
    assert planguard.load(job / "run" / "captured.plan.json").world_size == 12


def test_a_job_that_records_nothing_is_refused(job):
    """A command that starts no rank, none at all, or none that exists gives one clear error."""
    for words in (("--", "true"), (), ("--", "no-such-command")):
        done = call(job, "-o", f"run{len(words)}{words[-1:]}", *words)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
