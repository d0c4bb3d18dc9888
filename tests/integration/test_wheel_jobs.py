"""Ordinary jobs of every kind of parallelism, played by both doors: SAFE, with the user's lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.wheel]
pytest.importorskip("torch")

HEAD = """\
import os, sys
import torch
import torch.distributed as dist
from torch import nn

"""
BODIES = {
    "ddp": """\
def step():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
    loss = torch.ones(1)
    dist.all_reduce(loss)
    print("loss", loss)
""",
    "fsdp2": """\
def step():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model(torch.ones(4, 8)).sum().backward()
""",
    "tp": """\
def step():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
    from torch.distributed.tensor.parallel import parallelize_module
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    model(torch.ones(4, 8)).sum().backward()
""",
    "pipeline": """\
def step():
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    torch.manual_seed(0)
    rank, world = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(nn.Linear(8, 8), rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=lambda out, target: out.sum())
    if rank == 0:
        schedule.step(torch.ones(8, 8))
    elif rank == world - 1:
        schedule.step(target=torch.ones(8, 8), losses=[])
    else:
        schedule.step()
""",
    "dtensor": """\
def step():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    left = distribute_tensor(torch.ones(8, 8), mesh, [Shard(0)])
    right = distribute_tensor(torch.ones(8, 8), mesh, [Shard(1)])
    whole = (left + 1).redistribute(mesh, [Replicate()])
    (whole @ right).redistribute(mesh, [Shard(0)])
""",
    "compiled": """\
def step():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    model = nn.parallel.DistributedDataParallel(model)
    model = torch.compile(model, backend="aot_eager")
    model(torch.ones(4, 8)).sum().backward()
""",
}
JOB = """
if __name__ == "__main__":
    dist.init_process_group("gloo")
    step()
    dist.destroy_process_group()
"""
PRECHECK = """
if __name__ == "__main__":
    import json
    from planguard.capture import precheck

    with precheck(world_size=2) as check:
        step()
    verdict = check.verdict
    text = check.plan.source
    plan = json.loads(text)
    print(json.dumps({"outcome": verdict.outcome.value, "plan": plan}))
"""


def program(folder, name, tail):
    """Write a job of the user's, in a folder of its own called as PlanGuard is."""
    place = folder / "planguard" / "train.py"  # a name that a path alone must not be told by
    place.parent.mkdir()
    place.write_text(HEAD + BODIES[name] + tail)
    return place


def run(folder, *command):
    """Run a command as a stranger would."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, text=True, capture_output=True,
        timeout=110, check=False,
    )  # fmt: skip


def sources(plan):
    """The files and functions that a plan gives as the source of its actions."""
    found = set()
    todo = [plan["ranks"]] if "ranks" in plan else [plan]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            if isinstance(one.get("src"), list):
                found.add((one["src"][0], one["src"][2] if len(one["src"]) > 2 else None))
            todo += one.values()
        elif isinstance(one, list):
            todo += one
    return found


@pytest.mark.parametrize("name", BODIES)
def test_a_played_job_is_safe_and_names_the_users_lines(tmp_path, name):
    """`dryrun --stub` of an ordinary job: SAFE, and every action stands in the user's file."""
    job = program(tmp_path, name, JOB)
    words = ("-m", "planguard", "dryrun", "--stub", "-o", "run", "--", "torchrun")
    done = run(tmp_path, *words, "--nproc-per-node", "2", str(job))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("verdict: SAFE")
    plan = json.loads((tmp_path / "run" / "captured.plan.json").read_text())
    assert {file for file, _ in sources(plan)} == {str(job)}


@pytest.mark.parametrize("name", BODIES)
def test_a_prechecked_job_is_safe_and_names_the_users_lines(tmp_path, name):
    """`precheck` of the same: SAFE, and every action stands in the user's file."""
    job = program(tmp_path, name, PRECHECK)
    done = run(tmp_path, str(job))
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["outcome"] == "SAFE", done.stdout + done.stderr
    assert {file for file, _ in sources(said["plan"])} == {str(job)}


@pytest.mark.parametrize("name", ["ddp", "pipeline"])
def test_a_recorded_job_is_safe_and_names_the_users_lines(tmp_path, name):
    """`dryrun` of the same on real processes: SAFE, and every action stands in the user's file."""
    job = program(tmp_path, name, JOB)
    words = ("-m", "planguard", "dryrun", "-o", "run", "--", sys.executable, "-m")
    done = run(
        tmp_path, *words, "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(job)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("verdict: SAFE")
    converted = run(tmp_path, "-m", "planguard", "convert", "run", "-o", "run.plan.json")
    assert converted.returncode == 0, converted.stderr
    plan = json.loads((tmp_path / "run.plan.json").read_text())
    assert {file for file, _ in sources(plan)} == {str(job)}
