"""`planguard guard -- COMMAND`: a job as it is, guarded in every rank."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
    assert "exists" in again.stdout
    assert "END" not in again.stdout


@pytest.mark.processes
def test_a_slow_job_ends_as_it_does_alone(tmp_path):
    """A rank that is late by three times the timeout is no deadlock, and no warning."""
    done = guarded(tmp_path, "slow", PLANGUARD_GUARD_TIMEOUT="1.5")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("END") == 2
    assert "PG50" not in done.stdout


@pytest.mark.processes
def test_the_code_of_a_job_that_fails_is_the_commands(tmp_path):
    """torchrun ends with 1 where a rank ends with 7; the guard says nothing."""
    done = guarded(tmp_path, "fails", "--timeout", "60")
    assert done.returncode == 1
    assert "PG50" not in done.stdout
    assert "were stuck" not in done.stdout


@pytest.mark.processes
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
    left = [
        place
        for place in Path("/proc").glob("[0-9]*/cwd")
        if os.path.realpath(place) == str(tmp_path.resolve())
    ]
    assert left == []


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        ([], {}, "no job given"),
        (["--timeout", "soon", "--", "true"], {}, "--timeout: a time above 0"),
        (["--exit-code", "300", "--", "true"], {}, "--exit-code: a code from 0 to 255"),
        (["--", "true"], {"PLANGUARD_GUARD_WARN_AFTER": "0"}, "PLANGUARD_GUARD_WARN_AFTER: a time"),
        (["--", "true"], {"PLANGUARD_GUARD_NATIVE": "maybe"}, "PLANGUARD_GUARD_NATIVE: true or"),
        (["--report", "no/where/stuck.txt", "--", "true"], {}, "is no folder"),
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
