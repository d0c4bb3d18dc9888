"""`planguard guard -- COMMAND`: a job as it is, guarded in every rank."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planguard import kernels
from planguard.cli import main
from planguard.config import settings_of
from planguard.errors import UsageError
from planguard.live.report import no_progress
from planguard.live.state import Call, RankState

JOB = """
import os, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, what = dist.get_rank(), sys.argv[1]
if what == "hang":
    other = 1 - rank
    dist.send(torch.ones(1 << 20), other)
    dist.recv(torch.ones(1 << 20), other)
elif what == "slow":
    time.sleep(5 * rank)
    dist.all_reduce(torch.ones(1))
elif what == "slow backward":
    # Rank 1 computes below Python: its stack stands in torch for seconds, as a waiting one does.
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    size = 3000 if rank else 4
    big = torch.ones(size, size, dtype=torch.float64, requires_grad=True)
    for _ in range(2):
        ((big @ big).sum() * 0 + model(torch.ones(2, 4)).sum()).backward()
elif what == "hook":
    def two_rounds(_, bucket):
        whole = dist.all_reduce(bucket.buffer(), async_op=True).get_future().wait()[0]
        parts = dist.all_reduce(whole[:1].clone(), async_op=True).get_future()
        return parts.then(lambda done: (done.value(), whole)[1])

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    if rank == 0:
        model.register_comm_hook(None, two_rounds)
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()
    dist.barrier()
elif what == "fails":
    dist.barrier()
    os._exit(7 * rank)
print("END", rank, flush=True)
dist.destroy_process_group()
"""


def guarded(folder: Path, what: str, *options: str, **environment: str):
    """Run two ranks of the job under guard; the finished process, its output in one text."""
    (folder / "job.py").write_text(JOB)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    return subprocess.run(
        [sys.executable, "-m", "planguard", "guard", *options, "--", *launch, "job.py", what],
        cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, timeout=120,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip


@pytest.mark.processes
@pytest.mark.wheel
def test_a_job_that_hangs_is_told_and_ended(tmp_path):
    """Its numbers from a settings file, the environment and an option, the last one first."""
    (tmp_path / "planguard.toml").write_text('[guard]\ntimeout = "60m"\nreport = "stuck.txt"\n')
    done = guarded(
        tmp_path, "hang", "--timeout", "1500ms", "--no-native", PLANGUARD_GUARD_TIMEOUT="120m"
    )
    assert done.returncode == 1, done.stdout
    assert "error[PG501]: stuck: ranks 0, 1 can never move again" in done.stdout
    assert "job.py:10" in done.stdout
    assert "native stack" not in done.stdout
    assert "cycle: r0 -> r1 -> r0" in (tmp_path / "stuck.txt").read_text()
    assert (tmp_path / "stuck.json").exists()
    again = guarded(tmp_path, "hang")
    assert again.returncode == 2
    assert "stuck.txt exists and was left as it is" in again.stdout
    assert "END" not in again.stdout
    forced = guarded(tmp_path, "fails", "--force")
    assert forced.returncode == 1
    assert "were stuck" not in forced.stdout  # the old report is no answer to this job
    assert not (tmp_path / "stuck.txt").exists()


@pytest.mark.processes
@pytest.mark.wheel
def test_a_slow_job_ends_as_it_does_alone(tmp_path):
    """A rank that is late by three times the timeout is no deadlock, and no warning."""
    done = guarded(tmp_path, "slow", PLANGUARD_GUARD_TIMEOUT="1.5")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("END") == 2
    assert "PG50" not in done.stdout


@pytest.mark.processes
@pytest.mark.wheel
@pytest.mark.skipif(kernels.IMPLEMENTATION != "native", reason="needs the library of native stacks")
def test_who_waits_below_a_communication_hook_is_named(tmp_path):
    """Rank 0's hook waits for a future, rank 1 in the C++ of DDP's reducer: nobody calls wait on a
    handle, and both are named with call, line and stack.
    """
    done = guarded(tmp_path, "hook", "--timeout", "1500ms", "--report", "stuck.txt")
    assert done.returncode == 1, done.stdout
    said = json.loads((tmp_path / "stuck.json").read_text())
    assert [one["rank"] for one in said["ranks"]] == [0, 1]
    for one in said["ranks"]:
        assert one["call"].startswith(("all_reduce on", "broadcast on", "barrier on"))
        assert "job.py:" in one["where"]
        assert any("job.py:" in frame for frame in one["stack"])
        assert one["is_certain"]


@pytest.mark.processes
@pytest.mark.wheel
def test_a_backward_that_computes_for_long_is_no_deadlock(tmp_path):
    """One rank waits in DDP's reducer, the other computes in C++ for several timeouts."""
    done = guarded(tmp_path, "slow backward", "--timeout", "700ms")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("END") == 2
    assert "PG501" not in done.stdout


@pytest.mark.processes
@pytest.mark.wheel
def test_the_code_of_a_job_that_fails_is_the_commands(tmp_path):
    """torchrun ends with 1 where a rank ends with 7; the guard says nothing."""
    done = guarded(tmp_path, "fails", "--timeout", "60")
    assert done.returncode == 1
    assert "PG50" not in done.stdout
    assert "were stuck" not in done.stdout


@pytest.mark.processes
@pytest.mark.wheel
def test_ctrl_c_leaves_nothing(tmp_path):
    """The ranks get the signal, the command ends with 130, and no process is left."""
    (tmp_path / "job.py").write_text(JOB)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command = [sys.executable, "-m", "planguard", "guard", "--", *launch, "job.py", "hang"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    time.sleep(6)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=40) == 130
    left = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # one that has ended, or one that is somebody else's
            if place.readlink() == tmp_path.resolve():
                left.append(place)
    assert left == []


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        ([], {}, "no job given"),
        (["--timeout", "soon", "--", "true"], {}, "--timeout: a time above 0"),
        (["--exit-code", "300", "--", "true"], {}, "--exit-code: a code from 0 to 255"),
        (["--", "true"], {"PLANGUARD_GUARD_WARN_AFTER": "0"}, "PLANGUARD_GUARD_WARN_AFTER: a time"),
        (["--", "true"], {"PLANGUARD_GUARD_NATIVE": "maybe"}, "PLANGUARD_GUARD_NATIVE: true or"),
        (["--report", "no/where/stuck.txt", "--", "true"], {}, "there is no folder"),
        (["--", "no-such-command"], {}, "cannot be run"),
    ],
)
def test_bad_options_run_nothing(arguments, environment, said, monkeypatch, capsys, tmp_path):
    """One clear error, exit code 2."""
    monkeypatch.chdir(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["guard", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_settings_file_names_what_is_wrong():
    """The table, the key, the value; a good one is kept."""
    assert settings_of('[guard]\nexit-code = 0\nwarn-after = "5m"', "x").guard == {
        "exit_code": 0,
        "warn_after": 300.0,
    }
    for text, said in (("timeou = 3", "unknown key 'timeou'"), ("timeout = -1", "timeout: a time")):
        with pytest.raises(UsageError, match=said):
            settings_of(f"[guard]\n{text}", "planguard.toml")


def test_who_waits_for_one_slow_rank_is_no_news():
    """Of two ranks one waits 9 s: the mean is 4.5 s, below five times a timeout of 1 s."""
    call = Call(0, "all_reduce", "g", (0, 1), None, 0, 1)
    states = {0: RankState(0, current=call, since_s=9.0), 1: RankState(1)}
    assert no_progress(states, 5.0, 2) == ""
    assert no_progress({0: states[0]}, 5.0, 2) == ""
    said = no_progress({**states, 1: RankState(1, current=call, since_s=3.0)}, 5.0, 2)
    assert "2 of 2 ranks" in said
    assert "6.0 s on average" in said
