"""The recorder over ProcessGroupNCCL, as far as that goes without a GPU: a stand-in for it tells
what torch asks of it, and under the recorder it must be asked for the same.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from planguard.capture.run.ranks import read_run

pytestmark = [pytest.mark.processes, pytest.mark.wheel]
pytest.importorskip("torch")

WORKER = Path(__file__).with_name("nccl_worker.py")


def ranks(backend, bound, *words):
    """What the stand-in was asked for, on each of two ranks."""
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = str(one.getsockname()[1])
    environment = {
        **os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
        "ASKED": json.dumps({"backend": backend, "bound": bound}),
    }  # fmt: skip
    started = [
        subprocess.Popen(
            [sys.executable, str(WORKER), *words], env={**environment, "RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        ended = [one.communicate(timeout=100) for one in started]
    finally:
        for one in started:
            one.kill()
    for one, (out, err) in zip(started, ended, strict=True):
        assert one.returncode == 0, out + err[-3000:]
    return [json.loads(out.splitlines()[-1]) for out, _ in ended]


@pytest.mark.parametrize("bound", [True, False])
def test_nccl_is_asked_for_the_same_communicators(tmp_path, bound):
    """With a device and without: the same groups in the same order, made at once or split from the
    same one, under the same names, timeouts, priorities and device.
    """
    plain, recorded = (ranks("cuda:nccl,cpu:gloo", bound, *x) for x in ((), (str(tmp_path),)))
    assert recorded == plain
    made = [row for row in plain[0] if row[0] == "made"]
    assert len(made) == 4
    assert all(row[6] for row in made)
    assert [row[4] for row in made] == ["0:30:00", "0:30:00", "0:01:17", "0:10:00"]
    assert [row[8] is not None for row in made] == [False, *[bound] * 3]
    assert bool([row for row in plain[1] if row[0] == "split of others"]) == bound


@pytest.mark.parametrize(("bound", "name", "backend"), [
    (True, "nccl", "nccl"), (False, "undefined", "gloo"),
])  # fmt: skip
def test_a_job_that_names_no_backend_gets_the_one_that_torch_takes(tmp_path, bound, name, backend):
    """With a device NCCL alone, as get_backend says, and no gloo beside it; with none the backend
    of the machine's accelerator, here the CPU. The log names it.
    """
    plain, recorded = ranks(None, bound), ranks(None, bound, str(tmp_path))
    assert recorded == plain
    (said,) = (row for row in plain[0] if row[0] == "world")
    assert said[2:] == [name, ["cuda" if bound else "cpu"]]
    assert len([row for row in plain[0] if row[0] == "made"]) == (4 if bound else 1)
    assert [one.backend for one in read_run(tmp_path)] == [backend] * 2


SPLIT = """
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("cpu:gloo")  # two devices are split at once, and torch's gloo may hang
world = dist.group.WORLD
options = world._get_backend(torch.device("cpu")).options
half = world.split_group([0, 1], timeout=timedelta(seconds=30), opts=options, group_name="half")
assert half.group_name == "half"
half.allreduce([torch.ones(3 + (dist.get_rank() if sys.argv[1:] else 0))]).wait()
"""


@pytest.mark.parametrize(("words", "code", "said"), [
    ((), 3, "a process group was split"), (("sizes",), 1, "verdict: MISMATCH"),
])  # fmt: skip
def test_a_group_that_is_split_is_recorded_and_said(tmp_path, words, code, said):
    """Calls of the part are in the plan, and compared; that all came to the split is not, so that
    nothing is SAFE. Real gloo processes, which can split as NCCL does.
    """
    (tmp_path / "job.py").write_text(SPLIT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [sys.executable, "-m", "planguard", "dryrun", "--stall", "5", "--model", "gloo",
               "-o", "run", "--", *launch, "job.py", *words]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert said in " ".join(done.stdout.split())
