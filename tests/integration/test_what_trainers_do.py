"""One job with what trainers do beside their steps: played and recorded, it is SAFE."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.wheel]
pytest.importorskip("torch")

JOB = """
import copy, os, pickle, sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

assert os.environ["MASTER_ADDR"] and os.environ["MASTER_PORT"]
dist.init_process_group("gloo")
rank = dist.get_rank()
assert dist.get_backend() == "gloo"
dist.monitored_barrier()
model = DistributedDataParallel(torch.nn.Linear(4, 4))
data = TensorDataset(torch.ones(3 + rank, 4))
loader = DataLoader(data, batch_size=1, num_workers=1)
with Join([model]):
    for (batch,) in loader:
        loss = model(batch).sum()
        loss.backward()
kept = copy.deepcopy({"loss": loss.item()})  # as a trainer's state does
pickle.loads(pickle.dumps(kept))
if sys.argv[2] == "saves":
    dcp.async_save({"model": model.state_dict()}, checkpoint_id=sys.argv[1]).result()
else:
    own = dist.new_group() if sys.argv[2] == "own" else None
    saving = dcp.async_save(
        {"model": model.state_dict()}, checkpoint_id=sys.argv[1], process_group=own
    )
    model(torch.ones(1, 4)).sum().backward()  # the next step, beside it
    saving.result()
dist.barrier()
dist.destroy_process_group()
"""


def dry_run(folder, saves, *words):
    """Run the job on two ranks, played or recorded, and give the exit code and what was said."""
    (folder / "job.py").write_text(JOB)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, "-m", "planguard", "dryrun", "--model", "gloo", *words, "-o", "run", "--",
         *launch, "job.py", str(folder / "saved"), saves],
        cwd=folder, capture_output=True, text=True, timeout=160, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("way", ["stub", "recorded"])
def test_workers_states_checkpoints_and_uneven_data(tmp_path, way):
    """Processes that load data, a number of the trainer's state that is copied and pickled, the
    name of the backend, a monitored barrier, a checkpoint that a task of a pool writes, and Join
    over loaders of different lengths: nothing is refused, no handle is told as never waited for.
    """
    code, said = dry_run(tmp_path, "saves", "--stub" if way == "stub" else "--witness")
    assert code == 0, said
    assert "verdict: SAFE" in said
    assert "PG301" not in said


@pytest.mark.parametrize(("group", "verdict"), [("own", "SAFE"), ("default", "UNKNOWN")])
def test_a_checkpoint_that_is_saved_beside_a_step(tmp_path, group, verdict):
    """async_save with a group of its own is decided; on the default group its calls and those of
    the step come in any order, which is told.
    """
    _, said = dry_run(tmp_path, group, "--stub")
    assert f"verdict: {verdict}" in said
    assert ("PG904" in said) == (group == "default")
